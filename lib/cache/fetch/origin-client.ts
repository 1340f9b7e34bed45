/**
 * Makes the client for origins as the configuration wants it: deadlines, connections, the parent proxy, further authorities,
 * mirrors.
 */
import { readFile } from 'node:fs/promises'
import type { Clock } from '../../async/clock.ts'
import type { BlockPool } from '../../bytes/block-pool.ts'
import { Failure, whyUnreadable } from '../../errors.ts'
import { OriginClient } from '../../http/client/client.ts'
import type { Lookup } from '../../http/client/dialling/name-lookup.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import { isPublicAddress } from '../../ip.ts'
import type { Logger } from '../../log/log.ts'
import { readCertificates } from '../../x509/x509.ts'
import type { Config } from '../config/config.ts'
import { closestPattern, hostList } from '../policy/hosts.ts'
import type { Answer, Mirrors, Question } from './mirrors.ts'
import { type FollowOptions, follow } from './redirects.ts'
import { systemAuthorities } from './system-authorities.ts'

/** Throws a Failure with one sentence when a file of `https.origin_ca` cannot be used. */
export async function originClient(
  config: Config,
  {
    clock,
    blocks,
    lookup,
    log,
  }: {
    readonly clock: Clock
    readonly blocks: BlockPool
    readonly lookup?: Lookup
    readonly log: Logger
  },
): Promise<OriginClient> {
  const { connect, fields, content } = config.timeouts
  const except = hostList(config.parentProxy?.except ?? [])
  return new OriginClient({
    clock,
    blocks,
    isPublic: isPublicAddress,
    parent: config.parentProxy,
    direct: authority => closestPattern(except, authority) !== undefined,
    ca: await trustedAuthorities(config, log),
    deadlines: { lookup: connect, connect, tls: connect, parent: connect, fields, content },
    limits: { perOrigin: config.limits.originConnections },
    ...(lookup === undefined ? {} : { lookup }),
  })
}

/** The authorities that origins may have their certificates from besides those of Node, PEM: the system's and those of `https.origin_ca`. */
export async function trustedAuthorities(
  { https }: Pick<Config, 'https'>,
  log: Logger,
): Promise<readonly string[]> {
  const own = await originAuthorities(https.originCa)
  return [...(await systemAuthorities(process.env, sentence => log.warn(sentence))), ...own]
}

/** The certificates in the files of `https.origin_ca`, PEM. Throws a Failure with one sentence when one has none. */
export async function originAuthorities(files: readonly string[]): Promise<readonly string[]> {
  const found: string[] = []
  for (const file of files) {
    try {
      const certificates = readCertificates(await readFile(file, 'latin1'))
      if (certificates.length === 0) throw new Error('it has no certificate in PEM form')
      found.push(...certificates.map(({ pem }) => pem))
    } catch (error) {
      const sentence = `https.origin_ca names ${file}, which cannot be used: ${whyUnreadable(error)}`
      throw new Failure(sentence, { code: 'ORIGIN_CA', cause: error })
    }
  }
  return found
}

interface AskParts extends FollowOptions {
  readonly mirrors: Mirrors
  /** Our name in Via; undefined when it is not sent. */
  readonly via: () => string | undefined
  readonly agent: () => string
}

/**
 * `more` are the fields for one origin: conditions and ranges. `others` says whether the archive has further origins. `fresh`: only a new
 * connection will do.
 */
export type Ask = (
  question: Question & {
    readonly method?: 'HEAD'
    readonly fresh?: boolean
    readonly more?: (place: TargetUri, others: boolean) => Fields
  },
) => Promise<Answer>

/** Asks the origins of an archive in turn, redirects followed or passed, nothing of the client in it. */
export function asking({ mirrors, via, agent, ...follows }: AskParts): Ask {
  return question => {
    const { method = 'GET', fresh = false, more, lifetime: within } = question
    const own = via()
    const chain = own === undefined || question.via === undefined ? own : `${question.via}, ${own}`
    const shared = Fields.of(['User-Agent', agent()], ['Accept', '*/*'], ['Via', chain])
    return mirrors.ask(question, (uri, others, hurry) => {
      const fields = shared.followedBy(more?.(uri, others).flat ?? [])
      const deadlines = hurry?.deadlines
      const signal = hurry?.signal
      return follow(uri, { method, fields, fresh, within, deadlines, signal }, follows)
    })
  }
}

/**
 * Asks with HEAD. An address that is signed for GET alone, as those of object stores are, refuses that: then GET is asked, whose content is
 * closed by the caller.
 */
export async function askForHead(ask: Ask, question: Parameters<Ask>[0]): ReturnType<Ask> {
  const answer = await ask({ ...question, method: 'HEAD' })
  if (![400, 403, 405, 501].includes(answer.response.status)) return answer
  answer.response.content.close()
  return ask(question)
}
