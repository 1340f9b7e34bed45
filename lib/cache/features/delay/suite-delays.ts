/**
 * Keeps new generations of suites from clients for as long as `delay` and `hold` of their archives say.
 *
 * Clients get the Release file that is stored under the plain name. A new one of the origin is stored under its digest, with the
 * indexes that clients use, and waits. Before each look-up of a Release file, and each minute, `choose` decides which one belongs under
 * the plain name. The suite then adopts it like any Release file. A Release file that got the plain name in another way, such as the
 * import of a bundle, is treated as a new one that waits.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { repeat } from '../../../async/repeat.ts'
import { SingleFlight } from '../../../async/single-flight.ts'
import { explainError } from '../../../errors.ts'
import type { Logger } from '../../../log/log.ts'
import { suiteOfRelease } from '../../archive/path.ts'
import type { Rules } from '../../policy/policy.ts'
import type { DelayReason } from '../../rfc9111/outcome.ts'
import type { Entry } from '../../store/entry.ts'
import type { Store } from '../../store/store.ts'
import type { ReleaseFacts } from '../../suites/adopt.ts'
import {
  type Age,
  type Content,
  type Generation,
  type GivenGeneration,
  generationOf,
  type KnownSuite,
  keyIn,
  keysOf,
  type OpenPermission,
  type Permission,
  type ReleaseFile,
  releaseFile,
  releasesOf,
  type WaitingGeneration,
} from '../../suites/generation.ts'
import type { Suite } from '../../suites/suite.ts'
import type { Suites } from '../../suites/suites.ts'
import type { ArrivedRelease, GenerationChoice } from '../../suites/updates/places.ts'
import {
  type Choice,
  choose,
  type Restraint,
  restrainsAny,
  restraintOf,
  withWaiting,
} from './delay.ts'
import type { SteadyTime } from './steady-time.ts'

interface SuiteDelaysParts {
  readonly rules: () => Rules
  readonly suites: Pick<Suites, 'all' | 'at' | 'live' | 'adoptions' | 'noteDelay' | 'removed'>
  readonly store: Pick<Store, 'get' | 'put' | 'has'>
  readonly clock: Clock
  readonly log: Logger
  readonly steady: SteadyTime
}

type ReleaseName = ReleaseFile['name']

/** The reason why clients keep an earlier generation, and the generations that wait. */
export interface DelayState {
  readonly restraint: Restraint
  readonly choice: Choice
  readonly given: GivenGeneration | undefined
  /** The Date of the generation that clients get. */
  readonly date: Milliseconds | undefined
  readonly waiting: readonly WaitingGeneration[]
  readonly open: OpenPermission | undefined
  /** The time by `SteadyTime`. */
  readonly now: Milliseconds
}

/** The time between two looks for generations that are old enough, and the number of looks after which the steady time is saved. */
const betweenLooks: Milliseconds = 60_000
const looksBetweenNotes = 10

/** A suite that can be adopted is adopted within seconds. After this time it counts as one that cannot. */
const longestAdoption: Milliseconds = 60_000

/** What is remembered of a suite. */
interface DelayMemory {
  /** The moment of the first request for a suite that is not adopted, by `elapsed`. */
  firstAsked?: Milliseconds | undefined
  /** The SHA-256 of the Release files about whose expiry the log has warned. */
  readonly warned: Set<string>
}

export class SuiteDelays implements GenerationChoice {
  readonly #parts: SuiteDelaysParts
  readonly #settling = new SingleFlight<void>()
  readonly #memories = new WeakMap<Suite, DelayMemory>()
  #looks = 0
  #stopLooking: (() => void) | undefined

  constructor(parts: SuiteDelaysParts) {
    this.#parts = parts
  }

  /** Puts the right Release files in place now and each minute. Never rejects. */
  async start(): Promise<void> {
    await this.#settleAll()
    this.#stopLooking = repeat(this.#parts.clock, betweenLooks, () => this.#look())
  }

  async close(): Promise<void> {
    this.#stopLooking?.()
    if (this.#active) await this.#parts.steady.save()
  }

  /** Whether any archive has a delay or a hold. */
  get #active(): boolean {
    return restrainsAny(this.#parts.rules().config)
  }

  restrains(at: string): boolean {
    return this.restraint(at) !== undefined
  }

  /** The delay or hold of an adopted suite; undefined when it has neither or is not adopted. */
  restraint(at: string): Restraint | undefined {
    if (!this.#active || this.#parts.suites.at(at) === undefined) return undefined
    return restraintOf(at, this.#parts.rules().config)
  }

  settle(key: string): Promise<void> | undefined {
    if (!this.#active) return undefined
    const at = suiteOfRelease(key)
    if (at === undefined) return undefined
    const restraint = this.restraint(at)
    this.#noteUnknown(at)
    if (restraint === undefined) return undefined
    const name = nameOf(key)
    return this.#settling.run(`${at}/${name}`, async () => {
      try {
        await this.#settle(at, name, restraint)
      } catch (error) {
        const because = explainError(error)
        this.#parts.log.warn('a delay could not be applied', { suite: at, because })
      }
    })
  }

  withholds(key: string): 'other-form' | 'unreadable' | undefined {
    const at = suiteOfRelease(key)
    const suite = at === undefined ? undefined : this.#parts.suites.at(at)
    if (suite === undefined || this.restraint(suite.at) === undefined) return undefined
    const name = nameOf(key)
    const digest = digestGiven(suite, name)
    if (digest === undefined) return 'other-form'
    if (!key.endsWith('.gpg')) return 'unreadable'
    return releaseOf(suite, name, digest)?.signedBy === undefined ? 'other-form' : 'unreadable'
  }

  reason(key: string): DelayReason | undefined {
    if (!this.#active) return undefined
    const because = this.state(suiteOfRelease(key) ?? '', nameOf(key))?.choice.because
    if (because === 'delayed') return 'suite-delayed'
    return because === 'held' ? 'suite-held' : undefined
  }

  /** The Release file, or signature, that `settle` would put under this key; undefined when it would change nothing. Changes nothing. */
  async foreseen(key: string): Promise<Entry | undefined> {
    const at = suiteOfRelease(key)
    const name = nameOf(key)
    const suite = at === undefined ? undefined : this.#parts.suites.at(at)
    const state = at === undefined ? undefined : this.state(at, name)
    if (suite === undefined || state === undefined) return undefined
    const digest = state.choice.digest ?? digestGiven(suite, name)
    const release = digest === undefined ? undefined : releaseOf(suite, name, digest)
    const content = key.endsWith('.gpg') ? release?.signedBy : release
    const path = key.slice(suite.at.length + 1)
    const hashed = content && hashedKey(suite.at, path, content)
    if (hashed === undefined || (await this.#parts.store.get(key))?.digest === content?.digest) {
      return undefined
    }
    const found = await this.#parts.store.get(hashed)
    if (found === undefined) return undefined
    const { verified: _, ...entry } = found
    return { ...entry, key }
  }

  /** The state of the delay or hold of a suite; undefined when it has none. */
  state(at: string, name?: ReleaseName): DelayState | undefined {
    const restraint = this.restraint(at)
    const suite = this.#parts.suites.at(at)
    if (restraint === undefined || suite === undefined) return undefined
    const which = name ?? suite.generations[0]?.release.name ?? 'InRelease'
    const digest = digestGiven(suite, which)
    if (digest === undefined) return undefined
    return {
      restraint,
      choice: this.#choice(suite, which, { digest, restraint }),
      given: suite.given?.[which],
      date: factsOf(suite, digest)?.date,
      waiting: waitingOf(suite, which).filter(({ release }) => release.digest !== digest),
      open: this.#openNow(suite),
      now: this.#parts.steady.now(),
    }
  }

  /** The suites whose delay or hold has no effect, because their Release files may not be adopted. */
  get without(): readonly string[] {
    if (!this.#active) return []
    const before = this.#parts.clock.elapsed() - longestAdoption
    const isLong = (suite: Suite) => (this.#memories.get(suite)?.firstAsked ?? Infinity) < before
    const long = this.#parts.suites.live.all.filter(isLong)
    return long.map(({ at }) => at).filter(at => this.#isUnknown(at))
  }

  #memory(at: string): DelayMemory {
    const suite = this.#parts.suites.live.of(at)
    const memory = this.#memories.get(suite) ?? { warned: new Set() }
    this.#memories.set(suite, memory)
    return memory
  }

  /** The waiting Release file that arrived last, else the one that clients get. */
  async newest(at: string, entry: Entry): Promise<Entry> {
    const suite = this.#parts.suites.at(at)
    const last = suite && waitingOf(suite, nameOf(entry.key)).at(-1)
    const key = last && hashedKey(at, last.release.name, last.release)
    const found = key === undefined ? undefined : await this.#parts.store.get(key)
    return found !== undefined && this.#parts.store.has(found.digest) ? found : entry
  }

  async wait(
    at: string,
    { release, signature }: ArrivedRelease,
    facts: ReleaseFacts,
  ): Promise<void> {
    const { suites, clock, log, steady } = this.#parts
    const file = releaseFile(release, signature)
    const { date, validUntil, contents } = facts
    if (date !== undefined) steady.proved(date)
    this.#keep(at, file.name, release)
    if (signature !== undefined) this.#keep(at, 'Release.gpg', signature)
    const suite = suites.at(at)
    if (suite === undefined) return
    const waiting = suite.waiting ?? []
    const known = waiting.find(one => one.release.digest === release.digest)
    // The other form of the same Release file may have arrived before.
    const same = known ?? waiting.find(one => date !== undefined && one.date === date)
    const next: WaitingGeneration = {
      release: file,
      date,
      validUntil,
      signature: facts.signature,
      contents,
      seen: same?.seen ?? steady.now(),
      noticed: same?.noticed ?? clock.now(),
      ...(same?.released !== undefined && { released: same.released }),
    }
    await Promise.all([
      suites.noteDelay(at, { waiting: withWaiting(waiting, next), given: allGiven(suite) }),
      steady.save(),
    ])
    if (known !== undefined) return
    const dated = date === undefined ? {} : { date: new Date(date).toISOString() }
    log.info('a new generation of a suite waits', { suite: at, release: release.digest, ...dated })
  }

  /**
   * Lets the waiting generations of a suite through, or with `until` all that arrive until then. Returns the number of those that waited;
   * undefined for a suite without a delay or hold.
   */
  async release(
    at: string,
    permission: Permission,
    until?: Milliseconds,
  ): Promise<number | undefined> {
    const { suites, log } = this.#parts
    const suite = suites.at(at)
    if (suite === undefined || this.restraint(at) === undefined) return undefined
    const waiting = suite.waiting ?? []
    await suites.noteDelay(
      at,
      until === undefined
        ? { waiting: waiting.map(one => ({ ...one, released: permission })) }
        : { open: { ...permission, until } },
    )
    const { by, reason } = permission
    log.info('an operator lets generations of a suite through', {
      suite: at,
      by,
      reason,
      waiting: waiting.length,
      ...(until !== undefined && { until: new Date(until).toISOString() }),
    })
    for (const name of releaseNames) await this.settle(`${at}/${name}`)
    return waiting.length
  }

  #isUnknown(at: string): boolean {
    const { suites, rules } = this.#parts
    return suites.at(at) === undefined && restraintOf(at, rules().config) !== undefined
  }

  #noteUnknown(at: string): void {
    if (!this.#isUnknown(at)) return
    this.#memory(at).firstAsked ??= this.#parts.clock.elapsed()
  }

  #look(): Promise<void> | undefined {
    if (!this.#active && !this.#parts.suites.all.some(hasState)) return undefined
    this.#looks += 1
    return this.#settleAll().then(() =>
      this.#looks % looksBetweenNotes === 0 ? this.#parts.steady.save() : undefined,
    )
  }

  async #settleAll(): Promise<void> {
    const { suites } = this.#parts
    for (const suite of suites.all) {
      const { at } = suite
      if (this.restraint(at) !== undefined) {
        for (const name of releaseNames) await this.settle(`${at}/${name}`)
      } else if (hasState(suite)) {
        await suites.noteDelay(at, { waiting: undefined, given: undefined, open: undefined })
      }
    }
  }

  async #settle(at: string, name: ReleaseName, restraint: Restraint): Promise<void> {
    const { suites, store } = this.#parts
    const suite = suites.at(at)
    const digest = suite && digestGiven(suite, name)
    const key = keyIn(at, name)
    if (suite === undefined || digest === undefined || key === undefined) return
    const entry = await store.get(key)
    const signed = name === 'Release' && releaseOf(suite, name, digest)?.signedBy !== undefined
    const unsigned = signed && (await store.get(`${at}/Release.gpg`)) === undefined
    if (entry?.digest !== digest || unsigned) {
      if (entry !== undefined && entry.digest !== digest) await this.#takeAway(at, entry)
      if (!(await this.#place(at, releaseOf(suite, name, digest)))) {
        // The next Release file that arrives counts as the first of the suite.
        await suites.removed([key])
        return
      }
    }
    const latest = suites.at(at)
    if (latest === undefined) return
    if (latest.given === undefined) await suites.noteDelay(at, { given: allGiven(latest) })
    const choice = this.#choice(latest, name, { digest, restraint })
    const next = latest.waiting?.find(({ release }) => release.digest === choice.digest)
    const live = suites.live.of(at)
    if (next !== undefined) await this.#give(latest, next, choice)
    else if (isWaiting(choice) && live.standing === 'same') live.note('restrained')
    if (choice.expires) this.#warn(at, choice.digest ?? digest)
  }

  /** Handles a Release file that has the plain name too early: it waits from now on, if it may be adopted at all. */
  async #takeAway(at: string, release: Entry): Promise<void> {
    const { suites, store, log } = this.#parts
    const name = nameOf(release.key)
    const signature = name === 'Release' ? await store.get(`${at}/Release.gpg`) : undefined
    const { digest } = release
    const facts = (await suites.adoptions.prepare(at, releaseFile(release, signature)))?.facts
    if (facts !== undefined) await this.wait(at, { release, signature }, facts)
    else
      log.warn('a stored Release file is not given: it may not be adopted', { suite: at, digest })
  }

  /** Gives clients a generation that has waited. */
  async #give(suite: KnownSuite, next: WaitingGeneration, choice: Choice): Promise<void> {
    const { suites, clock, log } = this.#parts
    const { at } = suite
    const { because } = choice
    if (because !== 'ripe' && because !== 'released' && because !== 'expiring') return
    const { name, digest } = next.release
    const permission = because === 'released' ? (next.released ?? suite.open) : undefined
    const before = suite.given
    const { date, dateBefore } = ageOf(suite, name)
    const given: GivenGeneration = {
      digest,
      because,
      since: clock.now(),
      seen: next.seen,
      dateBefore: date ?? dateBefore,
      ...(permission && { permission }),
    }
    await suites.noteDelay(at, { given: { ...allGiven(suite), [name]: given } })
    if (!(await this.#place(at, next.release))) {
      const waiting = suites.at(at)?.waiting?.filter(({ release }) => release.digest !== digest)
      await suites.noteDelay(at, { given: before, waiting })
      log.warn('a generation that waited is lost', { suite: at, release: digest })
      return
    }
    suites.live.of(at).note(because)
    const facts = {
      suite: at,
      because,
      release: digest,
      ...(permission && { by: permission.by, reason: permission.reason }),
    }
    if (because === 'expiring') {
      log.warn(
        'clients get a generation ahead of its time: the earlier one is about to expire',
        facts,
      )
    } else log.info('clients get a generation that waited', facts)
  }

  /** Puts a Release file and its signature under their plain names. Returns whether the store had them. */
  async #place(at: string, file: ReleaseFile | undefined): Promise<boolean> {
    const { store } = this.#parts
    if (file === undefined) return false
    const { name, signedBy } = file
    const files: ReadonlyArray<readonly [string, Content]> = [
      ...(signedBy === undefined ? [] : [['Release.gpg', signedBy] as const]),
      [name, file],
    ]
    const entries: Entry[] = []
    for (const [path, content] of files) {
      const [key, hashed] = [keyIn(at, path), hashedKey(at, path, content)]
      const found = hashed === undefined ? undefined : await store.get(hashed)
      if (key === undefined || found === undefined || !store.has(found.digest)) return false
      const { verified: _, ...entry } = found
      entries.push({ ...entry, key })
    }
    return entries.every(entry => store.put(entry).stored)
  }

  #keep(at: string, path: string, entry: Entry): void {
    const key = hashedKey(at, path, entry)
    if (key !== undefined) this.#parts.store.put({ ...entry, key, verified: { by: 'name' } })
  }

  #choice(
    suite: KnownSuite,
    name: ReleaseName,
    { digest, restraint }: { readonly digest: string; readonly restraint: Restraint },
  ): Choice {
    const { validUntil } = factsOf(suite, digest) ?? {}
    return choose({
      given: { digest, validUntil, ...ageOf(suite, name) },
      waiting: waitingOf(suite, name)
        .filter(({ release }) => release.digest !== digest)
        .map(one => ({ ...one, digest: one.release.digest })),
      restraint,
      openUntil: this.#openNow(suite)?.until,
      now: this.#parts.steady.now(),
    })
  }

  /** The permission of a suite while it holds by both times, so that a clock that is set back does not renew it. */
  #openNow({ open }: KnownSuite): OpenPermission | undefined {
    const { clock, steady } = this.#parts
    return Math.max(clock.now(), steady.now()) < (open?.until ?? 0) ? open : undefined
  }

  #warn(at: string, digest: string): void {
    const { warned } = this.#memory(at)
    if (warned.has(digest)) return
    warned.add(digest)
    this.#parts.log.warn('the generation that clients get is about to expire', {
      suite: at,
      release: digest,
    })
  }
}

const releaseNames: readonly ReleaseName[] = ['InRelease', 'Release']

function isWaiting({ because }: Choice): boolean {
  return because === 'delayed' || because === 'held'
}

function nameOf(key: string): ReleaseName {
  return key.endsWith('/InRelease') ? 'InRelease' : 'Release'
}

function hasState({ waiting, given, open }: KnownSuite): boolean {
  return waiting !== undefined || given !== undefined || open !== undefined
}

function waitingOf({ waiting = [] }: KnownSuite, name: ReleaseName): readonly WaitingGeneration[] {
  return waiting.filter(({ release }) => release.name === name)
}

/** The SHA-256 of the Release file that clients get in this form; undefined when they get the other form. */
function digestGiven(suite: KnownSuite, name: ReleaseName): string | undefined {
  const [adopted] = suite.generations
  const ofAdopted = adopted && releasesOf(adopted).find(release => release.name === name)
  return suite.given?.[name]?.digest ?? ofAdopted?.digest
}

/** The Release files that clients get in each form. They are noted, so that one form stays when the other changes. */
function allGiven(suite: KnownSuite): Partial<Record<ReleaseName, GivenGeneration>> {
  const given: Partial<Record<ReleaseName, GivenGeneration>> = { ...suite.given }
  const [adopted] = suite.generations
  for (const { name, digest } of adopted === undefined ? [] : releasesOf(adopted)) {
    given[name] ??= { digest, because: 'first', since: adopted?.adopted ?? 0 }
  }
  return given
}

function factsOf(
  suite: KnownSuite,
  digest: string,
): Pick<Generation, 'date' | 'validUntil'> | undefined {
  return (
    generationOf(suite, digest) ?? suite.waiting?.find(({ release }) => release.digest === digest)
  )
}

/** The age of the generation that clients get in this form. */
function ageOf(suite: KnownSuite, name: ReleaseName): Age {
  const { seen, dateBefore } = suite.given?.[name] ?? {}
  const digest = digestGiven(suite, name)
  return { date: digest === undefined ? undefined : factsOf(suite, digest)?.date, seen, dateBefore }
}

function releaseOf(suite: KnownSuite, name: ReleaseName, digest: string): ReleaseFile | undefined {
  const generations = suite.generations.flatMap(releasesOf)
  return [...generations, ...(suite.waiting ?? []).map(({ release }) => release)].find(
    release => release.name === name && release.digest === digest,
  )
}

/** The key by digest of a Release file or its signature, under which it is stored beside the one that clients get. */
function hashedKey(at: string, path: string, { digest, size }: Content): string | undefined {
  return keysOf(at, { path, digest, size })[1]
}
