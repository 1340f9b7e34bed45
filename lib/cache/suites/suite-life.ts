/**
 * The life of a suite: its states, what each event makes of them, and what clients get in each. This file is pure; `Suite` (suite.ts)
 * keeps the state of each suite.
 *
 * A life has two sides. The adoption says what this cache has read of the suite:
 *
 *     unknown ──release-came──> adopting ──adopted──> adopted ──release-came, index-came──> adopting-again ──adopted──> adopted
 *
 * The standing says how the Release file that clients get stands to the one of the origin:
 *
 *     same ──another-came──> preparing ──prepared──> same
 *                            preparing ──missing──> held ──prepared──> same
 *                            preparing ──refused──> refused ──prepared──> same
 *                            preparing ──restrained──> waits ──ripe, released, expiring──> same
 *     any ──origin-slow──> slow,  any ──origin-failed──> failed,  any ──origin-gone──> gone,  any ──confirmed──> same
 *     any ──origin-denies──> denied ──lapsed──> lapsed
 *
 * # Who sends the events
 * | Event | Sender |
 * |---|---|
 * | release-came, index-came | the store, when a file has arrived or the last byte of it has (`Suites.stored`, `Suites.arriving`); a reload |
 * | adopted, unadoptable | `Adoptions`, after the thread has read the Release file |
 * | another-came, missing, refused, confirmed, origin-slow, origin-failed | `Updates`, for a client, by schedule, or for the Release file of other nodes |
 * | prepared | `Updates`, when clients get it: its files are here, or clients no longer have to wait for them |
 * | origin-gone | the fetcher, when an origin no longer has a Release file of the suite |
 * | origin-denies | `Updates`, when clients learn that the origin refuses a Release file, or is believed to have none |
 * | lapsed | `Updates` with it, when no known key has signed the adopted Release file, or `suites.gone_after` has passed since; not with `verify: require`, a delay or a hold |
 * | restrained | `Updates`, and a start |
 * | ripe, released, expiring | the choice of a generation, such as a delay (`GenerationChoice`) |
 * | removed | an operator, or the end of its Release files |
 */

/**
 * - unknown: no Release file of it is adopted
 * - adopting: its first Release file is being read
 * - adopted: what its Release file and indexes say is known
 * - adopting-again: the same, while a newer Release file or index is being read
 */
export type Adoption = 'unknown' | 'adopting' | 'adopted' | 'adopting-again'

/**
 * - same: clients get the Release file of the origin, as far as is known
 * - slow, failed: the origin gave no answer in time, or none that can be used
 * - gone: the origin no longer has a Release file of the suite, and is not believed yet
 * - preparing: the origin has another Release file, whose files are being fetched
 * - held: files of the origin's Release file are missing
 * - refused: the origin's Release file may not be adopted
 * - waits: a delay or a hold keeps the origin's Release file from clients
 * - denied: clients learn that the origin gives no Release file, which may pass
 * - lapsed: the same for long, or of a suite that no known key has signed
 */
export type Standing =
  | 'same'
  | 'slow'
  | 'failed'
  | 'gone'
  | 'preparing'
  | 'held'
  | 'refused'
  | 'waits'
  | 'denied'
  | 'lapsed'

export interface SuiteLife {
  readonly adoption: Adoption
  readonly standing: Standing
}

export type SuiteEvent =
  | 'release-came'
  | 'index-came'
  | 'adopted'
  | 'unadoptable'
  | 'another-came'
  | 'prepared'
  | 'missing'
  | 'refused'
  | 'confirmed'
  | 'restrained'
  | 'ripe'
  | 'released'
  | 'expiring'
  | 'origin-slow'
  | 'origin-failed'
  | 'origin-gone'
  | 'origin-denies'
  | 'lapsed'
  | 'removed'

/** The life of a suite about which nothing is known. */
export const unknownSuite: SuiteLife = { adoption: 'unknown', standing: 'same' }

type Steps<State extends string> = Readonly<
  Record<State, Readonly<Partial<Record<SuiteEvent, State>>>>
>

/** The adoption after each event; an event that is not listed does not change it. */
const adoptions: Steps<Adoption> = {
  unknown: { 'release-came': 'adopting', adopted: 'adopted' },
  adopting: { adopted: 'adopted', unadoptable: 'unknown', removed: 'unknown' },
  adopted: {
    'release-came': 'adopting-again',
    'index-came': 'adopting-again',
    removed: 'unknown',
  },
  // Of a Release file that may not be adopted nothing is used, so what was adopted before stays.
  'adopting-again': { adopted: 'adopted', unadoptable: 'adopted', removed: 'unknown' },
}

/** The events after which clients get the origin's Release file. */
const caughtUp = {
  confirmed: 'same',
  prepared: 'same',
  removed: 'same',
} as const

/** What happened to the origin's Release file, when clients do not get it. */
const judged = { missing: 'held', refused: 'refused', restrained: 'waits' } as const

/** The events after which it is not known which Release file the origin has. */
const unanswered = {
  'origin-slow': 'slow',
  'origin-failed': 'failed',
  'origin-gone': 'gone',
  'origin-denies': 'denied',
} as const

const apart = { ...caughtUp, ...judged, ...unanswered, 'another-came': 'preparing' } as const

/** The standing after each event; an event that is not listed does not change it. */
const standings: Steps<Standing> = {
  same: { ...judged, ...unanswered, 'another-came': 'preparing' },
  slow: apart,
  failed: apart,
  // The fetch that found the origin without the suite fails.
  gone: { ...apart, 'origin-failed': 'gone' },
  // The origin has answered; what is slow now is the arrival of the files.
  preparing: { ...apart, 'origin-slow': 'held' },
  held: { ...apart, 'another-came': 'held', 'origin-slow': 'held' },
  refused: { ...apart, 'another-came': 'refused' },
  waits: {
    ...apart,
    'another-came': 'waits',
    ripe: 'same',
    released: 'same',
    expiring: 'same',
  },
  denied: { ...apart, lapsed: 'lapsed' },
  lapsed: { ...apart, 'origin-denies': 'lapsed' },
}

/** The life after an event. */
export function afterEvent({ adoption, standing }: SuiteLife, event: SuiteEvent): SuiteLife {
  return {
    adoption: adoptions[adoption][event] ?? adoption,
    standing: standings[standing][event] ?? standing,
  }
}

/** The life of a suite of an earlier run. Files that were missing then hold its newer Release file back still. */
export function lifeAfterStart(facts: {
  readonly isHeld: boolean
  readonly waits: boolean
}): SuiteLife {
  const { isHeld, waits } = facts
  return { adoption: 'adopted', standing: isHeld ? 'held' : waits ? 'waits' : 'same' }
}

/** What clients get of a suite. */
export interface ClientAnswers {
  /**
   * InRelease or Release:
   * - any-file: like any file
   * - whole: the stored one, and another one of the origin only when its files are here
   * - earlier: the stored one, although the origin has another one or may have
   */
  readonly release: 'any-file' | 'whole' | 'earlier'
  /**
   * Release.gpg:
   * - any-file: like any file
   * - adopted: the one that the client's Release file was adopted with, else the origin's
   * - withheld: the same, but not the origin's, which may belong to another Release file
   */
  readonly signature: 'any-file' | 'adopted' | 'withheld'
  /**
   * An index by its plain name:
   * - any-file: like any file
   * - named: what the client's own Release file names
   * - awaited: the same. A client that got a Release file that is still being read waits for that, for `suites.wait`.
   */
  readonly index: 'any-file' | 'named' | 'awaited'
  /** A package: like any file, or what the indexes say; `awaited` when they are still being read. */
  readonly package: 'any-file' | 'named' | 'awaited'
  /** An index, also by its digest, that the origin does not have and the client's Release file does not name: it is gone, or may come. */
  readonly unnamed: 'gone' | 'may-come'
  /**
   * An index or a package, for a client that has asked for the Release file and learnt that there is none. Such a client checks nothing,
   * because apt asks for indexes without a Release file only where its user allows that.
   * - named: what the adopted Release file names, because an attacker on the way would begin with such an answer
   * - any-file: like any file
   */
  readonly unreleased: 'named' | 'any-file'
}

const ofAdoption: Readonly<
  Record<Adoption, Pick<ClientAnswers, 'release' | 'signature' | 'index' | 'package'>>
> = {
  unknown: { release: 'any-file', signature: 'any-file', index: 'any-file', package: 'any-file' },
  adopting: { release: 'whole', signature: 'any-file', index: 'awaited', package: 'awaited' },
  adopted: { release: 'whole', signature: 'adopted', index: 'named', package: 'named' },
  'adopting-again': {
    release: 'whole',
    signature: 'adopted',
    index: 'awaited',
    package: 'awaited',
  },
}

/** The standings in which the origin has another Release file than clients get, or may have. */
const behind: ReadonlySet<Standing> = new Set(['slow', 'failed', 'gone', 'held', 'refused'])

/** What clients get in a state. A file by its digest is the same in every state, so it is not listed. */
export function clientAnswers({ adoption, standing }: SuiteLife): ClientAnswers {
  const answers = ofAdoption[adoption]
  const isBehind = behind.has(standing)
  const keepsEarlier = isBehind || standing === 'preparing' || standing === 'waits'
  const isDenied = standing === 'denied' || standing === 'lapsed'
  const kept = keepsEarlier ? 'earlier' : isDenied ? 'any-file' : answers.release
  return {
    ...answers,
    release: adoption === 'unknown' ? answers.release : kept,
    signature: isBehind ? 'withheld' : answers.signature,
    unnamed: isBehind ? 'may-come' : 'gone',
    unreleased: standing === 'lapsed' ? 'any-file' : 'named',
  }
}
