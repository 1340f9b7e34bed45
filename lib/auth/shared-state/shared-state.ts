/**
 * The state that instances of one name share by a store (Valkey, Redis): ended sessions, used IDs, kept forms, counts of
 * attempts, records of failures. Keys are not shared this way, because the owner of the store must not be able to make a
 * session.
 *
 * This file and its imports are loaded only where `state.url` is set.
 */

import { randomUUID } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { day } from '../../async/clock.ts'
import { parsedJson } from '../../json.ts'
import type { Logger } from '../../log/log.ts'
import { authoritiesIn } from '../../x509/authorities.ts'
import type { StateConfig } from '../config/config.ts'
import type { FormStore, SealedForm } from '../login/kept-forms.ts'
import type { SharedParts } from '../login/parts.ts'
import { type UsedIds, usedMark } from '../login/used-answers.ts'
import { type FailureRecord, isFailureRecord, type Sender } from '../pages/failure-records.ts'
import type { RevocationList } from '../session/revocation.ts'
import { dialStore } from './connection.ts'
import { EvictionWatch } from './eviction.ts'
import { type StoreNames, storeNames } from './names.ts'
import { SharedRevocations } from './shared-revocations.ts'
import { type LinkState, type StoreAnswer, StoreLink } from './store-link.ts'

export type SharedState = Awaited<ReturnType<typeof openSharedState>>

/** The most records for each kind of sender. */
const MOST_RECORDS = 200
const LARGEST_RECORD = 16 * 1024
/** The time for which the store keeps records after the last one of their kind. */
const RECORDS: Milliseconds = 30 * day
/** The allowed difference between the clocks of instances: a message outdated for one may still be valid at another. */
const SKEW: Milliseconds = 5 * 60_000
/** The number of used IDs in one script. */
const AT_ONCE = 100
const SENDERS: readonly Sender[] = ['user', 'login', 'other', 'refused']
/** The time for which attempts count. An attacker who waits until its end can try as often again. */
const TRIES: Milliseconds = 30 * day
/** The most counts that are kept. Anyone can send messages that are counted, and the oldest count is removed first. */
const MOST_COUNTS = 50_000

const USE = `
for _, key in ipairs(KEYS) do if redis.call('EXISTS', key) == 1 then return 0 end end
for _, key in ipairs(KEYS) do redis.call('SET', key, '1', 'PX', ARGV[1]) end
return 1`

const REFILL = `
for i, key in ipairs(KEYS) do redis.call('SET', key, '1', 'PX', ARGV[i], 'NX') end
return 1`

/** Adds to counts. A count of nothing is removed; KEYS[1] has the names of all, the latest first. */
const COUNT = `
local counts = {}
for i = 2, #KEYS do
  local count = redis.call('INCRBY', KEYS[i], ARGV[1])
  counts[i - 1] = count
  if count <= 0 then redis.call('DEL', KEYS[i])
  elseif redis.call('PEXPIRE', KEYS[i], ARGV[2], 'NX') == 1 then
    if redis.call('LPUSH', KEYS[1], KEYS[i]) > tonumber(ARGV[3]) then
      for _, old in ipairs(redis.call('LRANGE', KEYS[1], ARGV[3], -1)) do redis.call('DEL', old) end
      redis.call('LTRIM', KEYS[1], 0, ARGV[3] - 1)
    end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return counts`

const RECORD = `
redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
return redis.call('PEXPIRE', KEYS[1], ARGV[3])`

/** Connects to the store, which may be away. Throws a Failure when the authorities cannot be read. */
export async function openSharedState(of: {
  readonly config: StateConfig
  readonly revocations: RevocationList | undefined
  readonly clock: Clock
  readonly log: Logger
}) {
  const { config, clock, log } = of
  const names = storeNames(config.instance)
  const authorities = authoritiesIn(config.certificates, 'state.certificates')
  const dial = (within: Milliseconds) => dialStore(config, authorities, { clock, within })
  let list: Pick<UsedIds, 'livingMarks'> | undefined

  const link = new StoreLink({ dial, probe: names.probe(randomUUID()), clock, log })
  const revocations =
    of.revocations && new SharedRevocations(of.revocations, { names, link, dial, clock, log })
  const timeOf = (until: Milliseconds) => String(Math.max(1, Math.ceil(until + SKEW - clock.now())))
  const use = (ids: readonly string[], until: Milliseconds) => {
    const keys = ids.map(id => names.used(usedMark(id)))
    return ['EVAL', USE, String(keys.length), ...keys, timeOf(until)]
  }
  const refill = async () => {
    const marks = [...(list?.livingMarks() ?? [])]
    for (let at = 0; at < marks.length; at += AT_ONCE) {
      const some = marks.slice(at, at + AT_ONCE)
      const keys = some.map(([mark]) => names.used(mark))
      const times = some.map(([, until]) => timeOf(until))
      const asked = await link.askLater(['EVAL', REFILL, String(keys.length), ...keys, ...times])
      if (!asked.ok) return
    }
  }
  const eviction = new EvictionWatch(link, { clock, log })
  await link.open(async connection => {
    await refill()
    void eviction.look()
    await revocations?.follow(connection)
  })

  const logins: SharedParts = {
    forms: sharedForms(link, names),
    async useIds(ids, until) {
      const asked = await link.ask(use(ids, until))
      if (asked.ok && asked.answer === 1) return 'first'
      return asked.ok && asked.answer === 0 ? 'again' : 'away'
    },
    tellLater(ids, until) {
      void link.askLater(use(ids, until))
    },
    refillFrom(found) {
      list = found
      void refill()
    },
    async countTries(keys, by) {
      const counted = keys.map(names.tries)
      const command = ['EVAL', COUNT, String(1 + keys.length), names.counts, ...counted]
      const asked = await link.askLater([...command, ...[by, TRIES, MOST_COUNTS].map(String)])
      if (!asked.ok || !Array.isArray(asked.answer)) return undefined
      return asked.answer.map(count => (typeof count === 'number' ? count : 0))
    },
  }
  return {
    ...logins,
    /** The list of ended sessions, shared; undefined where there is none. */
    revocations,
    /** Keeps a record of a failure for the other instances. */
    keepFailure(record: FailureRecord): void {
      const text = JSON.stringify(record)
      if (text.length > LARGEST_RECORD) return
      const key = names.failures(record.sender)
      void link.askLater(['EVAL', RECORD, '1', key, text, String(MOST_RECORDS), String(RECORDS)])
    },
    /** The records of failures at all instances. */
    async failures(): Promise<readonly FailureRecord[]> {
      const found: FailureRecord[] = []
      for (const sender of SENDERS) {
        const command = ['LRANGE', names.failures(sender), '0', String(MOST_RECORDS - 1)]
        const asked = await link.askLater(command)
        const texts = asked.ok && Array.isArray(asked.answer) ? asked.answer : []
        found.push(...texts.flatMap(text => recordIn(text) ?? []))
      }
      return found.sort((a, b) => a.at - b.at)
    },
    /** Keeps a line of the record of tokens for the other instances. */
    keepToken(user: string, line: string): void {
      const limits = [String(MOST_RECORDS), String(RECORDS)]
      void link.askLater(['EVAL', RECORD, '1', names.tokens(user), line, ...limits])
    },
    /** The lines of the record about a user, of all instances, the latest first; undefined when the store is away. `later` waits longer. */
    async tokensOf(user: string, when: 'now' | 'later'): Promise<readonly string[] | undefined> {
      const command = ['LRANGE', names.tokens(user), '0', String(MOST_RECORDS - 1)]
      const asked = await (when === 'now' ? link.ask(command) : link.askLater(command))
      return asked.ok && Array.isArray(asked.answer) ? asked.answer.map(String) : undefined
    },
    /** Keeps a digest of the attributes of the last login of a user. */
    keepLogin(user: string, attributes: string): void {
      void link.askLater(['SET', names.lastLogin(user), attributes, 'PX', String(RECORDS)])
    },
    /** That digest; undefined when there is none, or the store is away. */
    async lastLoginOf(user: string): Promise<string | undefined> {
      const asked = await link.ask(['GET', names.lastLogin(user)])
      return asked.ok && typeof asked.answer === 'string' ? asked.answer : undefined
    },
    get link(): LinkState {
      return link.state
    },
    get unanswered(): number {
      return link.unanswered
    },
    /** Whether the store throws keys away when its memory is full. */
    get evicts(): boolean {
      return eviction.evicts
    },
    /** The present problem of the store, for the administrator. */
    remark(): string | undefined {
      const { problem } = link
      if (problem === undefined) return eviction.remark()
      const waiting = revocations?.waitingCount ?? 0
      const passed = waiting === 0 ? '' : `; ${waiting} ends of sessions wait to be passed on`
      return `the shared store is away: ${problem}${passed}`
    },
    close: () => {
      eviction.close()
      return link.close()
    },
  }
}

function recordIn(text: unknown): FailureRecord | undefined {
  const found = parsedJson(String(text))
  return isFailureRecord(found) ? found : undefined
}

/** The most characters of a sealed form: an instance waits for a form as for any answer. A larger one stays where it arrived. */
const LARGEST_FORM = 2 * 1024 * 1024
/** The most characters of all forms on their way to the store, so that a slow store cannot fill the memory here. */
const MOST_ON_THE_WAY = 2 * LARGEST_FORM
/** The most forms of one user or one network, as in the memory of an instance (login/kept-forms.ts). */
const MOST_OF_ONE = 4
/** The fields of the hash, in the order of the scripts. */
const FIELDS = ['owner', 'target', 'network', 'contentType', 'origin', 'site', 'sealed'] as const

/** Puts a form, and removes the oldest of its sender when there are too many. */
const PUT = `
redis.call('HSET', KEYS[1], ${FIELDS.map((name, index) => `'${name}', ARGV[${index + 3}]`).join(', ')})
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('LPUSH', KEYS[2], KEYS[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
for _, old in ipairs(redis.call('LRANGE', KEYS[2], ARGV[2], -1)) do redis.call('DEL', old) end
redis.call('LTRIM', KEYS[2], 0, ARGV[2] - 1)
return 1`

const BIND = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if not owner then return false end
if owner == '' then redis.call('HSET', KEYS[1], 'owner', ARGV[1]) owner = ARGV[1] end
return {owner, redis.call('HGET', KEYS[1], 'target')}`

const TAKE = `
local found = redis.call('HMGET', KEYS[1], ${FIELDS.map(name => `'${name}'`).join(', ')})
redis.call('DEL', KEYS[1])
return found`

/**
 * The sealed forms of all instances. Each is a hash that lapses with its login, sealed with a key that only the browser has. It
 * reaches the store after the answer to its sender, while the browser goes to the identity provider.
 */
export function sharedForms(
  link: Pick<StoreLink, 'ask' | 'askLater'>,
  names: StoreNames,
): FormStore {
  let onTheWay = 0
  return {
    async put(id: string, kept: SealedForm, lifetime: Milliseconds): Promise<boolean> {
      const { owner, target, network, contentType, origin, site, sealed } = kept
      if (sealed.length > LARGEST_FORM || onTheWay + sealed.length > MOST_ON_THE_WAY) return false
      onTheWay += sealed.length
      const sender = names.formsOf(owner === undefined ? `network ${network}` : `user ${owner}`)
      const asked = await link.askLater([
        ...['EVAL', PUT, '2', names.form(id), sender],
        ...[String(Math.ceil(lifetime)), String(MOST_OF_ONE)],
        ...[owner ?? '', target, network, contentType, origin ?? '', site ?? '', sealed],
      ])
      onTheWay -= sealed.length
      return asked.ok
    },
    async bind(id, owner) {
      const found = textsOf(await link.ask(['EVAL', BIND, '1', names.form(id), owner]))
      if (found === 'away' || found === undefined) return found
      const [is, target] = found
      return typeof is === 'string' && typeof target === 'string' ? { owner: is, target } : 'away'
    },
    async take(id) {
      const found = textsOf(await link.ask(['EVAL', TAKE, '1', names.form(id)]))
      return found === 'away' || found === undefined ? found : keptOf(found)
    },
    forget(id) {
      void link.askLater(['DEL', names.form(id)])
    },
  }
}

/** The elements of an answer; undefined when it is nil. */
function textsOf(asked: StoreAnswer): readonly unknown[] | undefined | 'away' {
  if (!asked.ok) return 'away'
  if (asked.answer === null) return undefined
  return Array.isArray(asked.answer) ? asked.answer : 'away'
}

function keptOf(found: readonly unknown[]): SealedForm | undefined {
  const [owner, target, network, contentType, origin, site, sealed] = found
  if (typeof owner !== 'string' || typeof target !== 'string') return undefined
  if (typeof network !== 'string' || typeof contentType !== 'string') return undefined
  if (typeof origin !== 'string' || typeof sealed !== 'string') return undefined
  return {
    owner: owner === '' ? undefined : owner,
    target,
    network,
    contentType,
    sealed,
    ...(origin === '' ? {} : { origin }),
    ...(typeof site === 'string' && site !== '' ? { site } : {}),
  }
}
