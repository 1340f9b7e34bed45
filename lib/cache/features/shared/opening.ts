/**
 * Opens the store that nodes share, by the settings `shared_store`. Only a program with these settings loads this file, so that without them
 * no file of this folder is in memory.
 */
import { randomBytes } from 'node:crypto'
import type { BlockPool } from '../../../bytes/block-pool.ts'
import { Failure } from '../../../errors.ts'
import { OriginClient } from '../../../http/client/client.ts'
import type { Lookup } from '../../../http/client/dialling/name-lookup.ts'
import { formatUri } from '../../../http/message/target.ts'
import type { Config } from '../../config/config.ts'
import { bucketCredentials } from './s3/credentials.ts'
import { SharedBucket, type SharedBucketParts } from './shared-bucket.ts'
import type { SharedStore } from './shared-store.ts'

type Settings = Config['sharedStore']

interface SharedStoreParts extends Pick<SharedBucketParts, 'clock' | 'log' | 'store' | 'shares'> {
  readonly blocks: BlockPool
  /** Certificate authorities to trust in addition to those of Node, PEM. */
  readonly authorities: readonly string[]
  readonly lookup?: Lookup | undefined
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

/** Opens the store. Throws a Failure with one sentence when the credentials cannot be used. */
export async function openSharedStore(
  started: Settings & { readonly url: NonNullable<Settings['url']> },
  parts: SharedStoreParts,
): Promise<OpenedSharedStore> {
  const { clock, blocks, authorities, lookup, environment } = parts
  const { url, style, region } = started
  let credentials = { keyId: '', secret: '' }
  /** Reads the credentials again. Answers in one sentence why they cannot be used; the old ones stay in use then. */
  const readCredentials = (): string | undefined => {
    const place = started.credentials
    const read = bucketCredentials(place, environment)
    if ('problem' in read) {
      const of = place === undefined ? '' : `: ${place}`
      return `shared_store.credentials${of} ${read.problem}`
    }
    credentials = read
    return undefined
  }
  const problem = readCredentials()
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
  const shared = new SharedBucket({
    ...parts,
    client,
    place: { uri: url, style, region },
    credentials: () => credentials,
    credentialsAgain: readCredentials,
    url: formatUri(url),
    node: randomBytes(12).toString('hex'),
    expire: () => expire,
  })
  shared.open()
  return {
    shared,
    reload(settings, trusted) {
      expire = settings.expire
      client.dialler.trust(trusted)
      return readCredentials()
    },
    async close(signal) {
      await shared.close(signal)
      await client.close()
    },
  }
}
