/**
 * Decides which requests may read the pages that show which clients use the service, and for what.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { AddressSet } from '../../ip.ts'
import { PasswordCheck } from './password.ts'
import type { OperationsSources } from './sources.ts'
import { webResponse } from './web.ts'

/** The private paths. The rest is what clients need to use the service. */
const privatePaths: ReadonlySet<string> = new Set([
  ...['/_cachesvc/', '/_cachesvc/cache', '/_cachesvc/stats', '/_cachesvc/explain'],
  ...['/_cachesvc/live', '/_cachesvc/api/stats', '/_cachesvc/metrics'],
])

const elsewhere = 'See /_cachesvc/setup for how to use this proxy.\n'
const notForYou = `This page is for the networks under \`index.clients\`. ${elsewhere}`
const wanted = `This page wants the password of \`index.password\`; the user name can be any. ${elsewhere}`
const tooMany = 'There were too many wrong passwords. Try again in a minute.\n'

/** Answers requests for private paths that the configuration, as it is now, keeps from their client. */
export function readers(
  sources: OperationsSources,
): (request: Request, path: string) => Promise<Response | undefined> {
  const passwords = new PasswordCheck(sources.clock)
  let known: { readonly list: readonly string[]; readonly set: AddressSet } | undefined
  return async ({ client, fields }, path) => {
    if (!privatePaths.has(path)) return undefined
    const { clients: list, password } = sources.config.index
    if (known?.list !== list) known = { list, set: AddressSet.fromCidrs(list) }
    if (list.length > 0 && !known.set.has(client.address)) {
      return webResponse('text', notForYou, { status: 403 })
    }
    if (password === undefined) return undefined
    switch (await passwords.check(password, fields.get('Authorization'), client.address)) {
      case 'right':
        return undefined
      case 'wrong': {
        const fields = Fields.of(['WWW-Authenticate', 'Basic realm="cachesvc", charset="UTF-8"'])
        return webResponse('text', wanted, { status: 401, fields })
      }
      case 'too many': {
        const fields = Fields.of(['Retry-After', '60'])
        return webResponse('text', tooMany, { status: 429, fields })
      }
    }
  }
}
