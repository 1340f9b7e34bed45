/**
 * Two places where features join the life of a suite: the choice of the generation that clients get, such as a delay, and the nodes that
 * give the same Release files, such as those of a shared store. Without a feature, clients get each generation once its files are here,
 * and this node is alone.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { WantedFile } from '../../fetch/wanted-file.ts'
import type { DelayReason } from '../../rfc9111/outcome.ts'
import type { Entry } from '../../store/entry.ts'
import type { ReleaseFacts } from '../adopt.ts'

/** A Release file that has arrived, with its detached signature if it has one. */
export interface ArrivedRelease {
  readonly release: Entry
  readonly signature: Entry | undefined
}

/** The choice of the generation of a suite that clients get. `key` is that of a Release file or its signature. */
export interface GenerationChoice {
  /** Whether it chooses for the suite in this directory, so that a newer Release file does not replace the stored one at once. */
  restrains(at: string): boolean
  /** Puts the chosen Release file under this key; undefined when it does not choose for the suite. Never rejects. */
  settle(key: string): Promise<void> | undefined
  /**
   * The reason why a Release file that the store cannot give must not be fetched either; undefined when it may be. Its suite is kept at an
   * earlier generation, whose other form clients have got, or whose content cannot be read now. The origin could give a newer one.
   */
  withholds(key: string): 'other-form' | 'unreadable' | undefined
  /** The reason why clients get an earlier Release file under this key; undefined when they get the newest known one. */
  reason(key: string): DelayReason | undefined
  /** The Release file that would be put under this key before a look-up; undefined when it stays as it is. Changes nothing. */
  foreseen(key: string): Promise<Entry | undefined>
  /** The newest known Release file with the name of this entry, which the origin is asked about. */
  newest(at: string, entry: Entry): Promise<Entry>
  /** Takes a new generation, which has arrived with the files that clients use. */
  wait(at: string, arrived: ArrivedRelease, facts: ReleaseFacts): Promise<void>
}

/** The choice when no feature chooses: clients get the newest generation whose files are here. */
export const noChoice: GenerationChoice = {
  restrains: () => false,
  settle: () => undefined,
  withholds: () => undefined,
  reason: () => undefined,
  foreseen: async () => undefined,
  newest: async (_, entry) => entry,
  wait: async () => undefined,
}

/** A Release file that comes from elsewhere than the origin. */
export interface OfferedRelease {
  readonly date: Milliseconds
  /** The question for its file with this key, or for its signature; undefined when there is no such file. No origin is asked. */
  file(key: string): WantedFile | undefined
  /** Notes that its files cannot be used. */
  noteUnfit(): void
}

/** The nodes that give the same Release files to their clients. */
export interface OtherNodes {
  /** Offers the Release file and its signature, before clients of this node get them. Waits a bounded time. Never rejects. */
  announce(at: string, release: readonly Entry[], date: Milliseconds | undefined): Promise<void>
}
