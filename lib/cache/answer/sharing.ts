/**
 * Makes the parts by which this node uses a bucket: one finds files in the bucket before an origin is asked, others offer files to the other
 * nodes and follow their Release files. Only a program with the setting `shared_store` loads this file.
 */
import type { BlockPool } from '../../bytes/block-pool.ts'
import type { TargetUri } from '../../http/message/target.ts'
import { recentEntries } from '../../recent.ts'
import { suiteOfRelease } from '../archive/path.ts'
import type { Rules } from '../policy/policy.ts'
import { SharedNearer } from '../shared/misses/nearer.ts'
import { Peers } from '../shared/misses/peers.ts'
import { isShareable, isShareableKey, type SharingRules } from '../shared/shareable.ts'
import type { SharedStore } from '../shared/shared-store.ts'
import { Pointers } from '../shared/suites/pointers.ts'
import { isKeepingKey } from '../store/key.ts'
import type { Store } from '../store/store.ts'
import type { Suites } from '../suites/suites.ts'
import { SuiteFollower } from './following.ts'
import type { SuiteDelays } from './suite-delays.ts'
import type { Updates } from './suite-updates.ts'

interface SharingParts
  extends SharingRules,
    Omit<ConstructorParameters<typeof Pointers>[0], 'node'> {
  readonly shared: SharedStore
  readonly rules: () => Rules
  readonly store: Store
  readonly blocks: BlockPool
  /** The name of this node in Via. */
  readonly pseudonym: string
}

/** For at most this many keys it is remembered which content was offered to the other nodes. */
const mostOffered = 65_536

/** Makes the parts. From now on each new entry of a shared file is offered to the other nodes. */
export function sharingOf(parts: SharingParts) {
  const { shared, store, pseudonym, rules, clock, log } = parts
  const peers = new Peers({ ...parts, own: () => rules().config.sharedStore.peerUrl })
  const pointers = new Pointers({ ...parts, node: pseudonym })
  const offered = recentEntries<string, string>(mostOffered)
  store.listen({
    named(entry) {
      const { key, digest } = entry
      // A Release file is offered with the pointer that names it.
      if (suiteOfRelease(key) !== undefined || isKeepingKey(key)) return
      if (offered.get(key) === digest || !isShareableKey(key, parts)) return
      offered.set(key, digest)
      void shared.offer(entry)
    },
  })
  const nearer = new SharedNearer({
    ...parts,
    peers,
    pointers,
    onTaken: ({ key, digest }) => offered.set(key, digest),
    onWrong: digest => {
      for (const [key, known] of offered.entries()) if (known === digest) offered.delete(key)
    },
  })
  return {
    nearer,
    pointers,
    following: (made: {
      readonly suites: Suites
      readonly delays: SuiteDelays
      readonly updates: Updates
    }) => {
      const wait = () => rules().config.timeouts.revalidation
      return new SuiteFollower({ ...made, pointers, store, clock, log, wait })
    },
    isShared: (uri: TargetUri) => isShareable(uri, parts),
    close: () => peers.close(),
  }
}
