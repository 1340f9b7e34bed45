/**
 * Decides which requests may read the pages that show which clients use the service, and for what: by network, and by a password
 * (Basic authentication, RFC 7617).
 *
 * # Facts
 * - Hashing takes a thread some 50 ms. So the password that was right last is remembered as a digest, a client has ten attempts
 *   a minute, and only two hashes are made at once: the threads are those that read the disk.
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { AddressSet } from '../../ip.ts'
import { isPassword, type PasswordHash } from '../config/password-hash.ts'
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

type PasswordOutcome = 'right' | 'wrong' | 'too many'

/** Attempts of one client in a minute. */
const mostAttempts = 10
/** Clients whose attempts are counted; beyond it new ones wait for the next minute. */
const mostClients = 1000
const mostAtOnce = 2
const period: Milliseconds = 60_000

export class PasswordCheck {
  readonly #clock: Clock
  #right: { readonly kept: PasswordHash; readonly digest: Buffer } | undefined
  #attempts = new Map<string, number>()
  #since: Milliseconds = 0
  #hashing = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether the value of Authorization has the password. The user name can be any. */
  async check(
    kept: PasswordHash,
    authorization: string | undefined,
    client: string,
  ): Promise<PasswordOutcome> {
    const password = passwordIn(authorization)
    if (password === undefined) return 'wrong'
    const digest = createHash('sha256').update(password).digest()
    if (this.#right?.kept === kept && timingSafeEqual(this.#right.digest, digest)) return 'right'
    if (!this.#mayTry(client)) return 'too many'
    this.#hashing += 1
    try {
      if (!(await isPassword(password, kept))) return 'wrong'
      this.#right = { kept, digest }
      this.#attempts.delete(client)
      return 'right'
    } finally {
      this.#hashing -= 1
    }
  }

  #mayTry(client: string): boolean {
    const now = this.#clock.now()
    if (Math.abs(now - this.#since) >= period) {
      this.#attempts.clear()
      this.#since = now
    }
    const before =
      this.#attempts.get(client) ?? (this.#attempts.size < mostClients ? 0 : mostAttempts)
    if (before >= mostAttempts || this.#hashing >= mostAtOnce) return false
    this.#attempts.set(client, before + 1)
    return true
  }
}

/** RFC 7617 section 2: what follows the first colon. */
function passwordIn(authorization = ''): string | undefined {
  const [, credentials = ''] = /^basic +([a-z0-9+/]+={0,2})$/i.exec(authorization) ?? []
  const text = Buffer.from(credentials, 'base64').toString()
  const colon = text.indexOf(':')
  return colon === -1 ? undefined : text.slice(colon + 1)
}
