/**
 * Which settings a running service takes only when it starts: `.needsRestart()` says it beside each setting. What a reload leaves as it
 * was, and which changed settings wait, follow from that. Pure.
 */
import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../json.ts'
import { keyPath } from './reading.ts'
import { camelCase, manualPages, type Settings } from './settings.ts'

/**
 * A place in a configuration that only a start changes. `names` are the settings whose change is seen there, as the file spells them;
 * a place that is derived from those has none.
 */
interface FixedPlace {
  readonly at: readonly string[]
  readonly names: readonly string[]
}

/** The places in a configuration that the settings with `.needsRestart()` make, in the order of the manual. */
export function fixedPlaces(settings: Settings<unknown>): readonly FixedPlace[] {
  const places = new Map<string, string[]>()
  for (const page of manualPages(settings)) {
    const restart = 'setting' in page ? page.setting.restart : undefined
    if (restart === undefined) continue
    const own = page.path.map(camelCase).join('.')
    const [first, ...derived] = restart.length === 0 ? [own] : restart
    if (first !== undefined) places.set(first, [...(places.get(first) ?? []), keyPath(page.path)])
    for (const place of derived) places.set(place, places.get(place) ?? [])
  }
  return [...places].map(([place, names]) => ({ at: place.split('.'), names }))
}

/** The configuration in force after a reload: the wanted values, and those of the start where only a restart changes them. */
export function withFixed<C extends object>(
  places: readonly FixedPlace[],
  started: C,
  wanted: C,
): C {
  return places.reduce((config, { at }) => replaced(config, at, placeIn(started, at)), wanted)
}

/** The names of the settings whose wanted value is not the one in force, each name once. */
export function waitingSettings(
  places: readonly FixedPlace[],
  inForce: object,
  wanted: object,
): readonly string[] {
  const changed = places.filter(
    ({ at, names }) =>
      names.length > 0 && !isDeepStrictEqual(placeIn(inForce, at), placeIn(wanted, at)),
  )
  return [...new Set(changed.map(({ names }) => alternatives(names)))]
}

/** What an operator reads of changed settings that wait; nothing when none does. */
export function waitingSentences(names: readonly string[]): readonly string[] {
  return names.length === 0 ? [] : [`changed, and in force after a restart: ${names.join('; ')}`]
}

/** `limits.head`, `keys.shared or keys.file`; the group for more than two of one group. */
function alternatives(names: readonly string[]): string {
  const [first = ''] = names
  const group = first.slice(0, first.lastIndexOf('.') + 1)
  const together = group !== '' && names.length > 2 && names.every(name => name.startsWith(group))
  if (together) return group.slice(0, -1)
  return names.length < 2 ? first : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
}

function placeIn(config: unknown, at: readonly string[]): unknown {
  return at.reduce<unknown>((here, step) => (isRecord(here) ? here[step] : undefined), config)
}

/** A copy with another value at one place. Groups that are absent stay so. */
function replaced<C extends object>(
  config: C,
  [step = '', ...rest]: readonly string[],
  value: unknown,
): C {
  const members: Record<string, unknown> = Object.fromEntries(Object.entries(config))
  const inner = members[step]
  if (rest.length === 0) members[step] = value
  else if (isRecord(inner)) members[step] = replaced(inner, rest, value)
  // Only one member has another value, and that is one of the same setting.
  return members as C
}
