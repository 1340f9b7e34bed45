/**
 * What was used up: IDs of requests, assertions and logout messages, each of which counts once, and tries to have an encrypted key opened.
 *
 * The IDs are bounded, in memory, and kept in a small file across restarts (`lib/files/lapsing-marks.ts`): a captured answer must not sign in a second
 * time because the service was updated in between. Each ID is kept, as a hash, until the checks of times refuse its message anyway:
 * `["<hash>", <until, milliseconds since the epoch>]`. Several processes can put a store of their own behind the same interface, and
 * instances that share a store mark the IDs there first.
 */
import { createHash } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { FileCalls } from '../../files/file-calls.ts'
import { LapsingMarks } from '../../files/lapsing-marks.ts'
import type { Logger } from '../../log/log.ts'
import { recentEntries } from '../../recent.ts'

/** The store of used IDs. */
export interface UsedIds {
  /**
   * Marks all of `ids` as used, or none when one of them is used already (`again`) or the list has no room (`full`). This is one
   * step, so that of several simultaneous requests only one succeeds. The promise settles when the IDs are on disk, or when that has
   * failed, which the log reports. Never throws.
   */
  consume(ids: readonly string[], until: Milliseconds): Promise<'first' | 'again' | 'full'>
  /** The marks of the used IDs, and the moment each lapses. */
  livingMarks(): Iterable<readonly [mark: string, until: Milliseconds]>
  /** Settles when nothing is being read or written. */
  close(): Promise<void>
}

/** The used IDs that instances share by a store. */
export interface SharedIds {
  /** Marks IDs as used at all instances, all of them or none. Never throws. */
  useIds(ids: readonly string[], until: Milliseconds): Promise<'first' | 'again' | 'away'>
  /** Marks IDs as used that only this instance has marked so far. While the store is away, `refillFrom` does that later. */
  tellLater(ids: readonly string[], until: Milliseconds): void
  /** Sets the list of this instance, which is written to the store now and after each connect: the store may have lost its data. */
  refillFrom(list: Pick<UsedIds, 'livingMarks'>): void
}

interface UsedMessage {
  readonly ids: readonly string[]
  readonly until: Milliseconds
  /** Whether the list of this instance is enough while the store is away. */
  readonly ownListSuffices: boolean
}

/** A message that may be decrypted. */
export type DecryptionTry = ReturnType<ReturnType<typeof decryptionTries>>

export class UsedAnswers {
  readonly #list: UsedIds
  readonly #shared: SharedIds | undefined
  /** Begins a try: allows or refuses the decryption of one message. */
  readonly beginTry: () => DecryptionTry

  constructor(list: UsedIds, shared?: SharedIds & SharedTries) {
    this.#list = list
    this.#shared = shared
    this.beginTry = decryptionTries(shared)
    shared?.refillFrom(list)
  }

  /**
   * Marks the IDs of a message as used: first in the shared store, where there is one, so that only one instance accepts an
   * answer, then in the list of this instance. Answers `unsure` when the store cannot be asked and `ownListSuffices` is false.
   *
   * While the store is away, only the list of this instance can be asked. For a login that began here this suffices, because an
   * attacker who sends its answer to another instance would need the cookie of that login too. An unsolicited answer needs no
   * cookie, so it is refused before its IDs are marked here. When the store is back, a reload of the page succeeds, unless the store
   * was only slow: then it may have marked the IDs after this instance had stopped waiting, and the reload is `again`.
   */
  async use({
    ids,
    until,
    ownListSuffices,
  }: UsedMessage): Promise<'first' | 'again' | 'full' | 'unsure'> {
    const asked = await this.#shared?.useIds(ids, until)
    if (asked === 'again') return 'again'
    if (asked === 'away' && !ownListSuffices) return 'unsure'
    const used = await this.#list.consume(ids, until)
    if (used !== 'first') return used
    if (asked === 'away') this.#shared?.tellLater(ids, until)
    return 'first'
  }

  close(): Promise<void> {
    return this.#list.close()
  }
}

/** The counts of tries that instances share by a store. */
export interface SharedTries {
  /** Adds to the counts of keys, and answers the counts of all instances. No request waits for it. */
  countTries(keys: readonly string[], by: 1 | -1): Promise<readonly number[] | undefined>
}

/** Messages refused for each EncryptedKey; reading one byte from an encrypted assertion by its padding takes 128 on average. */
const MOST_TRIES = 8
/** Each entry takes 200 bytes. Only an EncryptedKey of methods that we accept counts, and each costs an RSA operation. */
const MOST_KEYS = 50_000

/**
 * Counts the refused messages of each EncryptedKey. CBC makes every such answer a hint at the plain text. To read it, an attacker who
 * holds an encrypted assertion has to send its EncryptedKey again each time: without the plain text no other can be made that
 * opens to the same key. An honest IdP makes a new one for each message, so a count concerns no other login.
 */
export function decryptionTries(shared?: SharedTries) {
  // The counts do not expire, or an attacker would wait for that. The least recently tried key is forgotten first.
  const refused = recentEntries<string, number>(MOST_KEYS)
  const count = (key: string) => refused.get(key) ?? 0
  // No message waits for the other instances, or the time of its answer would show that it was decrypted. So each instance may
  // still allow the tries it has under way when the others reach the limit.
  const share = async (keys: readonly string[], by: 1 | -1) => {
    if (keys.length === 0) return
    const counts = (await shared?.countTries(keys, by)) ?? []
    for (const [index, key] of keys.entries()) {
      const all = counts[index] ?? 0
      if (all > count(key)) refused.set(key, all)
    }
  }
  /** Allows or refuses the decryption of one message. A try counts from its start, so many at once are limited like a sequence. */
  return () => {
    let tried: readonly string[] = []
    return {
      /** Whether a message with these keys may be decrypted. */
      mayDecrypt: (keys: readonly string[]): boolean => {
        if (keys.some(key => count(key) >= MOST_TRIES)) return false
        tried = keys
        for (const key of keys) refused.set(key, count(key) + 1)
        void share(keys, 1)
        return true
      },
      /** Whether the message asked for a decryption. */
      asked: () => tried.length > 0,
      /** Takes the tries back, because the IdP has signed the message. */
      verified: () => {
        for (const key of tried) refused.set(key, Math.max(0, count(key) - 1))
        void share(tried, -1)
      },
    }
  }
}

/** The most IDs; each costs some 200 bytes. Only verified messages get this far, so other clients cannot fill the list. */
const MOST = 100_000

type UsedMark = readonly [hash: string, until: Milliseconds]

/** Takes over what an earlier run has left. The log reports files that cannot be read. */
export async function openUsedIds(options: {
  readonly path: string
  readonly clock: Clock
  readonly log: Logger
  readonly files?: FileCalls
}): Promise<UsedIds> {
  const { path, clock, log, files } = options
  const used = new Map<string, Milliseconds>()
  const sweep = (now: Milliseconds) => {
    for (const [mark, until] of used) if (until <= now) used.delete(mark)
  }
  const livingMarks = () => {
    sweep(clock.now())
    return used
  }
  const marks = new LapsingMarks<UsedMark>({
    path,
    clock,
    log,
    files,
    livingMarks,
    isMark,
    merge: found => {
      for (const [mark, until] of found) used.set(mark, Math.max(until, used.get(mark) ?? until))
    },
    sentences: {
      lost: 'a file of used IDs cannot be read: what it held is forgotten',
      changed:
        'another program changed the file of used IDs: it is written again with what this process knows',
      unwritten:
        'used IDs could not be kept: after a restart a captured answer could be used again',
    },
  })
  await marks.open()
  return {
    async consume(ids, until) {
      const now = clock.now()
      const hashes = ids.map(usedMark)
      // There is no wait between the check and the marking, or two requests could both find the IDs unused.
      if (hashes.some(mark => (used.get(mark) ?? Number.NEGATIVE_INFINITY) > now)) return 'again'
      if (used.size + hashes.length > MOST) sweep(now)
      if (used.size + hashes.length > MOST) return 'full'
      for (const hash of hashes) used.set(hash, until)
      await marks.add(hashes.map(hash => [hash, until] as const))
      return 'first'
    },
    livingMarks,
    close: () => marks.close(),
  }
}

/** The form in which an ID is stored. */
export function usedMark(id: string): string {
  return createHash('sha256').update(id).digest('base64url').slice(0, 22)
}

function isMark(found: unknown): found is UsedMark {
  const [hash, until, ...more]: readonly unknown[] = Array.isArray(found) ? found : []
  return typeof hash === 'string' && Number.isFinite(until) && more.length === 0
}
