/**
 * Opens the store that nodes share, by the settings `shared_store`. Only a program with these settings loads this file, so that without them
 * no file of this folder is in memory.
 */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Clock } from '../../async/clock.ts'
import type { BlockPool } from '../../bytes/block-pool.ts'
import { Failure } from '../../errors.ts'
import { OriginClient } from '../../http/client/client.ts'
import type { Lookup } from '../../http/client/dialling/name-lookup.ts'
import { formatUri } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import type { Config } from '../config/config.ts'
import { bucketCredentials } from './s3/credentials.ts'
import type { AwsCredentials } from './s3/sigv4.ts'
import { SharedBucket, type SharedBucketParts } from './shared-bucket.ts'
import type { SharedStore } from './shared-store.ts'

type Settings = Config['sharedStore']
type Url = NonNullable<Settings['url']>

interface SharedStoreParts extends Pick<SharedBucketParts, 'store' | 'shares'> {
  readonly clock: Clock
  readonly log: Logger
  readonly blocks: BlockPool
  /** Certificate authorities to trust besides those of Node, PEM. */
  readonly authorities: readonly string[]
  readonly lookup?: Lookup | undefined
  /** The cache directory. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

export interface OpenedSharedStore {
  readonly shared: SharedStore
  /** Takes over changed settings. Answers why new credentials cannot be used; the old ones stay in use then. */
  reload(settings: Settings, authorities: readonly string[]): string | undefined
  close(signal: AbortSignal): Promise<void>
}

/** The most connections to the store at a time. A slow reader of a content keeps its connection. */
const mostConnections = 64

/** Opens the store; undefined when the settings have no URL. Throws a Failure with one sentence when the credentials cannot be used. */
export async function openSharedStore(
  settings: Settings,
  parts: SharedStoreParts,
): Promise<OpenedSharedStore | undefined> {
  const { url } = settings
  return url === undefined ? undefined : open({ ...settings, url }, parts)
}

async function open(
  started: Settings & { readonly url: Url },
  parts: SharedStoreParts,
): Promise<OpenedSharedStore> {
  const { clock, blocks, authorities, lookup, environment } = parts
  const { url, style, region, peerUrl } = started
  const credentials = new Credentials(started, environment)
  const problem = credentials.read()
  if (problem !== undefined) throw new Failure(problem, { code: 'credentials-file' })
  let { expire } = started
  const client = new OriginClient({
    clock,
    blocks,
    ca: authorities,
    isPublic: () => true,
    limits: { perOrigin: mostConnections, freePerOrigin: mostConnections, free: mostConnections },
    ...(lookup && { lookup }),
  })
  const peer = peerUrl && formatUri(peerUrl)
  const shared = new SharedBucket({
    ...parts,
    client,
    place: { uri: url, style, region },
    credentials: () => credentials.present,
    credentialsAgain: () => void credentials.read(),
    url: formatUri(url),
    node: peer ?? `${hostname()} ${randomBytes(6).toString('hex')}`,
    peer,
    expire: () => expire,
  })
  await shared.open()
  return {
    shared,
    reload(settings, trusted) {
      expire = settings.expire
      client.dialler.trust(trusted)
      return credentials.read()
    },
    async close(signal) {
      await shared.close(signal)
      await client.close()
    },
  }
}

/** The credentials as they were when they could last be read. */
class Credentials {
  present: AwsCredentials = { keyId: '', secret: '' }
  readonly #place: string | undefined
  readonly #environment: SharedStoreParts['environment']

  constructor({ credentials }: Settings, environment: SharedStoreParts['environment']) {
    this.#place = credentials
    this.#environment = environment
  }

  /** Reads the credentials again. Answers in one sentence why they cannot be used; the old ones stay in use then. */
  read(): string | undefined {
    const read = bucketCredentials(this.#place, this.#environment)
    if (!('problem' in read)) {
      this.present = read
      return undefined
    }
    const name = 'shared_store.credentials'
    return this.#place === undefined
      ? `${name} ${read.problem}`
      : `${name}: ${this.#place} ${read.problem}`
  }
}
