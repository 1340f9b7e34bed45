/**
 * Keeps sealed forms in the shared store. Each form is a hash that lapses with its login, sealed with a key that only the
 * browser has.
 *
 * # Facts
 * - A form reaches the store after the answer to its sender, while the browser goes to the identity provider.
 * - The instance where the browser comes back waits for a form as for any answer of the store, so a form has to be small enough
 *   for that. A larger form stays with the instance that received it.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { FormStore, SealedForm } from '../login/kept-forms.ts'
import type { StoreNames } from './names.ts'
import type { StoreAnswer, StoreLink } from './store-link.ts'

/** The most characters of a sealed form. */
const LARGEST = 2 * 1024 * 1024
/** The most characters of all forms on their way to the store, so that a slow store cannot fill the memory here. */
const MOST_ON_THE_WAY = 2 * LARGEST
/** The most forms of one user or one network, as in the memory of an instance (login/kept-forms.ts). */
const MOST_OF_ONE = 4
/** The fields of the hash, in the order of the scripts. */
const FIELDS = ['owner', 'target', 'network', 'contentType', 'origin', 'sealed'] as const

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

/** The forms of all instances. */
export function sharedForms(
  link: Pick<StoreLink, 'ask' | 'askLater'>,
  names: StoreNames,
): FormStore {
  let onTheWay = 0
  return {
    async put(id: string, kept: SealedForm, lifetime: Milliseconds): Promise<boolean> {
      const { owner, target, network, contentType, origin, sealed } = kept
      if (sealed.length > LARGEST || onTheWay + sealed.length > MOST_ON_THE_WAY) return false
      onTheWay += sealed.length
      const sender = names.formsOf(owner === undefined ? `network ${network}` : `user ${owner}`)
      const asked = await link.askLater([
        ...['EVAL', PUT, '2', names.form(id), sender],
        ...[String(Math.ceil(lifetime)), String(MOST_OF_ONE)],
        ...[owner ?? '', target, network, contentType, origin ?? '', sealed],
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
  const [owner, target, network, contentType, origin, sealed] = found
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
  }
}
