/**
 * What the feature `shared` is in a running service: the bucket, and the parts by which this node gives to it and takes from it.
 */
import { stopStep } from '../../../daemon.ts'
import { trustedAuthorities } from '../../fetch/origin-client.ts'
import type { Ground, Joints, OpenFeature } from '../feature.ts'
import { sharedStoreMetrics } from './metrics.ts'
import { type OpenedSharedStore, openSharedStore } from './opening.ts'
import { sharedReport } from './report.ts'
import { isShareable, isShareableKey } from './shareable.ts'
import type { SharedStore } from './shared-store.ts'
import { sharingOf } from './sharing.ts'

/** Opens the bucket that the settings name. Throws a Failure when its credentials cannot be used. */
export async function openBucket(ground: Ground): Promise<OpenFeature> {
  const { rules, credentials, log, store, clock, blocks, lookup } = ground
  const { config } = rules()
  const { url } = config.sharedStore
  if (url === undefined) return {}
  const opened = await openSharedStore(
    { ...config.sharedStore, url },
    {
      clock,
      blocks,
      lookup,
      store,
      log: log.child({ part: 'shared-store' }),
      authorities: await trustedAuthorities(config, log),
      environment: process.env,
      shares: key => isShareableKey(key, { rules, credentials }),
    },
  )
  return openOver(opened.shared, ground, opened)
}

/** Opens the feature over a store that is open. `opened` reloads and closes it. */
export function openOver(
  shared: SharedStore,
  ground: Ground,
  opened?: Pick<OpenedSharedStore, 'reload' | 'close'>,
): OpenFeature {
  const { rules, credentials, store, clock, pseudonym } = ground
  const log = ground.log.child({ part: 'shared-store' })
  const made: ReturnType<typeof sharingOf>[] = []
  return {
    share: ({ live }) => {
      const sharing = sharingOf({ shared, rules, credentials, store, clock, log, pseudonym, live })
      made.push(sharing)
      return { nearer: sharing.nearer, others: sharing.pointers, follow: sharing.following }
    },
    join: ({ metrics }): Joints => {
      sharedStoreMetrics(metrics, () => shared.state)
      return {
        adopted: suite => {
          for (const { pointers } of made) void pointers.adopted(suite)
        },
        report: sharedReport(shared, uri => isShareable(uri, { rules, credentials })),
        ...(opened && {
          reload: authorities =>
            authorities && opened.reload(rules().config.sharedStore, authorities),
          stops: [
            {
              when: 'last',
              step: stopStep('finish uploads to the shared store', 5000, signal =>
                opened.close(signal),
              ),
            },
          ],
        }),
      }
    },
  }
}
