/**
 * Shares the list of ended sessions: a session that ends at one instance ends at all, within the time of a message.
 *
 * Each instance has the whole list in memory and on its own disk (session/revocation.ts) and asks that alone. The store has a stream of
 * what ends, which each instance reads as it grows, and a key for each mark, which lapses with the last session it may concern.
 *
 * # After each connect, in this order
 * 1. The ID of the newest message of the stream is read. No ID is kept from before: a replica that has taken over may have lower ones.
 * 2. The keys are read, page by page, and taken into the list.
 * 3. What the list has and the keys lack is written to the store: what ended here during an outage, and what a store has lost that came back empty. So
 *    the list itself is the queue of an outage: bounded, and on disk, as it is.
 * 4. The stream is read from the ID of step 1 on. When it was shortened past what has been read, all this is done again.
 *
 * The stream also tells of logins, as hashes: a browser that has logged in at one instance as another person does not go on as
 * the previous one at another. A login that an instance has not heard of is as one that it has forgotten.
 *
 * # Facts
 * - The mark of one session is its ID, 32 hexadecimal digits; the others are digests of users and NameIDs.
 * - `before` is a moment of the clock of the instance that ended something, and sessions have theirs from another one's clock. A session that is
 *   named by its ID has ended whatever these clocks say. For users and NameIDs they have to agree; `authproxy doctor` compares them.
 * - Who owns the store can end sessions. Nothing that is read here can make one.
 */
import { type Clock, day, type Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Logger } from '../../log/log.ts'
import {
  type EndedSessions,
  marksToRevoke,
  type Revocation,
  type RevocationEntry,
  type RevocationList,
  type Revoker,
} from '../session/revocation.ts'
import type { BrowserLogin } from '../session/sessions.ts'
import type { Connection } from './connection.ts'
import type { StoreNames } from './names.ts'
import { LONGEST, type StoreLink } from './store-link.ts'

/** The approximate number of messages that the stream keeps. */
const STREAM = '10000'
/** The most marks in one script, and messages in one answer. */
const AT_ONCE = 100
/** The number of keys in one page. */
const PAGE = '1000'
/** The most marks that are read from the store, or counted as waiting. A list has fewer. */
const MOST = 250_000
const BLOCK: Milliseconds = 5000
/** The allowed difference between the clocks of instances when a session is named by its ID. */
const SKEW: Milliseconds = 5 * 60_000
/** The longest life of a mark. No session lasts longer (`session.lifetime`). */
const LONGEST_MARK: Milliseconds = 40 * day

interface SharingParts {
  readonly names: StoreNames
  readonly link: Pick<StoreLink, 'askLater'>
  /** Opens another connection, for the stream. */
  readonly dial: (within: Milliseconds) => Promise<Connection>
  readonly clock: Clock
  readonly log: Logger
}

type Entry = readonly [mark: string, entry: RevocationEntry]

/** Enters marks that are new, or later than what is there, as keys and in the stream. */
const REVOKE = `
for i = 2, #KEYS do
  local mark, before, lapse = ARGV[3 * i - 4], ARGV[3 * i - 3], ARGV[3 * i - 2]
  local held = redis.call('GET', KEYS[i])
  local heldBefore, heldLapse = string.match(held or '', '^(%d+) (%d+)$')
  if not heldBefore or tonumber(heldBefore) < tonumber(before) then
    if heldLapse and tonumber(heldLapse) > tonumber(lapse) then lapse = heldLapse end
    redis.call('SET', KEYS[i], before .. ' ' .. lapse, 'PXAT', lapse)
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'e', mark .. ' ' .. before .. ' ' .. lapse)
  end
end
return 1`

export class SharedRevocations implements EndedSessions {
  readonly #list: RevocationList
  readonly #of: SharingParts
  /** Marks that have ended here and are not known to be in the store. */
  readonly #waiting = new Set<string>()
  #onEnded: () => void = () => undefined
  #onLogin: (login: BrowserLogin) => void = () => undefined

  constructor(list: RevocationList, of: SharingParts) {
    this.#list = list
    this.#of = of
  }

  /** From now on the listener learns that sessions have ended at another instance. */
  whenEnded(listener: () => void): void {
    this.#onEnded = listener
  }

  /** From now on the listener learns of logins, also of those at this instance. */
  whenLoggedIn(listener: (login: BrowserLogin) => void): void {
    this.#onLogin = listener
  }

  /** Tells the other instances of a login. */
  tellLogin({ browser, id, created, user }: BrowserLogin): void {
    const { names, link } = this.#of
    const text = `${browser} ${id} ${created} ${user}`
    void link.askLater(['XADD', names.stream, 'MAXLEN', '~', STREAM, '*', 'l', text])
  }

  /** The number of ended sessions that the other instances do not know yet. */
  get waitingCount(): number {
    return this.#waiting.size
  }

  has(session: Parameters<RevocationList['has']>[0]): boolean {
    return this.#list.has(session)
  }

  /** Enters a revocation here, where it takes effect at once, and passes it on without making the caller wait for that. */
  async add(which: Revocation, by?: Revoker): ReturnType<EndedSessions['add']> {
    const adding = this.#list.add(which, by)
    const { entries } = this.#list
    const entered: Entry[] = []
    for (const mark of marksToRevoke(which)) {
      const entry = entries.get(mark)
      if (entry === undefined) continue
      entered.push([mark, entry])
      if (this.#waiting.size < MOST) this.#waiting.add(mark)
    }
    void this.#publish(entered)
    const added = await adding
    await this.#list.takeIn(entered.map(entry => this.#believed(entry)))
    return added
  }

  /** Brings list and store together, and reads the stream until the connection ends. Throws the error that ended it. */
  async follow(connection: Connection): Promise<void> {
    const { clock, dial } = this.#of
    const reader = await dial(LONGEST)
    void connection.closed.then(because => reader.destroy(because))
    let id = await this.#bringTogether(connection)
    while (true) {
      const command = ['XREAD', 'COUNT', String(AT_ONCE), 'BLOCK', String(BLOCK)]
      const asked = reader.ask([...command, 'STREAMS', this.#of.names.stream, id])
      const answer = await resultInTime(asked, clock, BLOCK + LONGEST)
      if (answer === undefined) throw new Error('the stream of ended sessions is not answered')
      const messages = messagesIn(answer)
      const entries = messages.flatMap(message => entryIn(message) ?? [])
      const taken = this.#list.takeIn(entries.map(entry => this.#believed(entry)))
      const now = clock.now()
      for (const login of messages.flatMap(message => loginIn(message) ?? [])) {
        // A moment ahead of this clock is not believed, or the next login in the browser would count as earlier.
        this.#onLogin({ ...login, created: Math.min(login.created, now) })
      }
      if (entries.length > 0) this.#onEnded()
      await taken
      // When the stream no longer has the message, later ones may be missing as well.
      const isShortened =
        messages.length === AT_ONCE && (await this.#newestUpTo(id, connection)) === undefined
      id = isShortened ? await this.#bringTogether(connection) : (idOf(messages.at(-1)) ?? id)
      await this.#publishWaiting()
    }
  }

  /** Does the first three steps, and answers the ID from which to read the stream. */
  async #bringTogether(connection: Connection): Promise<string> {
    const newest = await this.#newestUpTo('+', connection)
    await this.#publishMissing(await this.#readKeys(connection))
    return newest ?? '0-0'
  }

  /** The ID of the newest message of the stream up to this one; undefined when there is none. */
  async #newestUpTo(id: string, connection: Connection): Promise<string | undefined> {
    const command = ['XREVRANGE', this.#of.names.stream, id, '-', 'COUNT', '1']
    const answer = await this.#timely(connection.ask(command))
    return Array.isArray(answer) ? idOf(answer[0]) : undefined
  }

  /** Passes on the marks that the store has refused during this connection. */
  async #publishWaiting(): Promise<void> {
    const waiting: Entry[] = []
    for (const mark of this.#waiting) {
      const entry = this.#list.entries.get(mark)
      if (entry === undefined) this.#waiting.delete(mark)
      else if (waiting.length < AT_ONCE) waiting.push([mark, entry])
    }
    if (!(await this.#publish(waiting))) throw new Error('ends of sessions could not be passed on')
  }

  /** The marks in the store, which are taken into the list. */
  async #readKeys(connection: Connection): Promise<ReadonlyMap<string, RevocationEntry>> {
    const { names } = this.#of
    const prefix = names.revoked('')
    const pattern = `${prefix.replace(/[\\*?[\]]/g, '\\$&')}*`
    const held = new Map<string, RevocationEntry>()
    let cursor = '0'
    do {
      const scan = ['SCAN', cursor, 'MATCH', pattern, 'COUNT', PAGE]
      const page = await this.#timely(connection.ask(scan))
      const [next, found]: readonly unknown[] = Array.isArray(page) ? page : []
      if (typeof next !== 'string' || !Array.isArray(found))
        throw new Error('SCAN is not answered as it should')
      cursor = next
      const keys = found.filter((key): key is string => typeof key === 'string')
      if (keys.length > 0) {
        const values = await this.#timely(connection.ask(['MGET', ...keys]))
        if (!Array.isArray(values)) throw new Error('MGET is not answered as it should')
        const entries = keys.flatMap(
          (key, index) => entryOf(`${key.slice(prefix.length)} ${values[index]}`) ?? [],
        )
        for (const [mark, entry] of entries) held.set(mark, entry)
      }
      if (held.size > MOST) throw new Error(`the store has more than ${MOST} ends of sessions`)
    } while (cursor !== '0')
    // One call takes all marks over, because the list is written as a whole.
    await this.#list.takeIn([...held].map(entry => this.#believed(entry)))
    return held
  }

  async #publishMissing(held: ReadonlyMap<string, RevocationEntry>): Promise<void> {
    const now = this.#of.clock.now()
    const missing: Entry[] = []
    for (const [mark, entry] of this.#list.entries) {
      const there = held.get(mark)
      if (
        entry.until <= now ||
        (there !== undefined && (isSessionId(mark) || there.before >= entry.before))
      )
        this.#waiting.delete(mark)
      else missing.push([mark, entry])
    }
    for (let at = 0; at < missing.length; at += AT_ONCE) {
      if (!(await this.#publish(missing.slice(at, at + AT_ONCE)))) {
        throw new Error('ends of sessions could not be passed on')
      }
    }
    if (missing.length > 0)
      this.#of.log.info('ends of sessions were passed on', { marks: missing.length })
  }

  async #publish(entries: readonly Entry[]): Promise<boolean> {
    if (entries.length === 0) return true
    const { names, link } = this.#of
    const keys = [names.stream, ...entries.map(([mark]) => names.revoked(mark))]
    const values = entries.flatMap(([mark, { before, until }]) => [
      mark,
      String(Math.round(before)),
      String(Math.round(until)),
    ])
    const asked = await link.askLater([
      'EVAL',
      REVOKE,
      String(keys.length),
      ...keys,
      STREAM,
      ...values,
    ])
    for (const [mark] of entries) {
      if (asked.ok) this.#waiting.delete(mark)
      else this.#waiting.add(mark)
    }
    return asked.ok
  }

  /** The entry with moments that are not far ahead of this clock; later moments are not believed. */
  #believed([mark, { before, until }]: Entry): Entry {
    const now = this.#of.clock.now()
    const ended = Math.min(before, now)
    return [
      mark,
      {
        before: isSessionId(mark) ? ended + SKEW : Math.min(before, now + SKEW),
        until: Math.min(until, now + LONGEST_MARK),
      },
    ]
  }

  async #timely(asked: Promise<unknown>): Promise<unknown> {
    const answer = await resultInTime(asked, this.#of.clock, LONGEST)
    if (answer === undefined) throw new Error(`the store has not answered in ${LONGEST} ms`)
    return answer
  }
}

function isSessionId(mark: string): boolean {
  return /^[0-9a-f]{32}$/.test(mark)
}

/** The messages in an answer to XREAD of one stream; empty when the answer is nil. */
function messagesIn(answer: unknown): readonly unknown[] {
  if (answer === null) return []
  const [stream]: readonly unknown[] = Array.isArray(answer) ? answer : []
  const [, messages]: readonly unknown[] = Array.isArray(stream) ? stream : []
  if (!Array.isArray(messages) || idOf(messages.at(-1)) === undefined)
    throw new Error('XREAD is not answered as it should')
  return messages
}

/** The ID of a message. */
function idOf(message: unknown): string | undefined {
  const [id]: readonly unknown[] = Array.isArray(message) ? message : []
  return typeof id === 'string' && /^\d{1,20}-\d{1,20}$/.test(id) ? id : undefined
}

function entryIn(message: unknown): readonly [Entry] | undefined {
  const text = fieldIn(message, 'e')
  return text === undefined ? undefined : entryOf(text)
}

/** Reads `BROWSER ID CREATED USER`; undefined for anything else. */
function loginIn(message: unknown): BrowserLogin | undefined {
  const [, browser, id, created, user] =
    /^([\w-]{22}) ([0-9a-f]{32}) (\d{1,15}) ([\w-]{43})$/.exec(fieldIn(message, 'l') ?? '') ?? []
  if (browser === undefined || id === undefined || user === undefined) return undefined
  return { browser, id, created: Number(created), user }
}

/** The text of the field of this name in a message that has it alone. */
function fieldIn(message: unknown, wanted: string): string | undefined {
  const [, fields]: readonly unknown[] = Array.isArray(message) ? message : []
  const [name, text]: readonly unknown[] = Array.isArray(fields) ? fields : []
  return name === wanted && typeof text === 'string' ? text : undefined
}

/** Reads `MARK BEFORE UNTIL`; undefined for anything else. */
function entryOf(text: string): readonly [Entry] | undefined {
  const [, mark, before, until] = /^([A-Za-z0-9_-]{32,43}) (\d{1,15}) (\d{1,15})$/.exec(text) ?? []
  if (mark === undefined) return undefined
  return [[mark, { before: Number(before), until: Number(until) }]]
}
