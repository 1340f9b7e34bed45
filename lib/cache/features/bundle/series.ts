/**
 * Bundles that follow each other: each has a number and names the previous one, whose files it leaves out. A cache remembers which bundles
 * it has imported, so that a missing one is noticed.
 *
 *     cachesvc-bundle.json      {…,"number":3,"id":"…","choice":["archive.example.org"],"after":{"number":2,"id":"…"}}
 *     imported-bundles.json     {"version":1,"imported":["…"]}      in the cache directory, the oldest first
 */
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { hour, type Milliseconds } from '../../../async/clock.ts'
import { Failure, valueUnlessMissing } from '../../../errors.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { isCount, isRecord, jsonText, parsedJson } from '../../../json.ts'
import { identityName, identityProblem, maxLineBytes } from './format.ts'
import { tarMembers } from './tar.ts'

interface BundleName {
  readonly number: number
  /** A random name, which no other bundle has. */
  readonly id: string
}

/** The place of a bundle in its series. */
export interface BundlePlace extends BundleName {
  /** The archives and suites that were chosen, in words. */
  readonly choice: readonly string[]
  /** The bundle whose files this one leaves out, and those before it; undefined for one that is whole by itself. */
  readonly after?: BundleName | undefined
}

/** The place of the bundle after `before`, or of a first one. Throws a Failure when the choice is another. */
export function placeAfter(
  before: BundlePlace | undefined,
  id: string,
  choice: readonly string[],
): BundlePlace {
  if (before === undefined) return { number: 1, id, choice }
  if (choice.join() !== before.choice.join()) {
    const said = before.choice.length === 0 ? 'everything' : before.choice.join(', ')
    throw seriesFailure(`The previous bundle has ${said}, so this one has to have the same.`)
  }
  const { number } = before
  return { number: number + 1, id, choice, after: { number, id: before.id } }
}

/** The place in the text of an identity; undefined when it has none, as of a version before 1.1. */
export function placeIn(identity: string): BundlePlace | undefined {
  const found = parsedJson(identity)
  const name = nameIn(found)
  if (name === undefined || !isRecord(found)) return undefined
  const choice = Array.isArray(found['choice']) ? found['choice'].map(String) : []
  return { ...name, choice, after: nameIn(found['after']) }
}

function nameIn(found: unknown): BundleName | undefined {
  if (!isRecord(found)) return undefined
  const { number, id } = found
  return isCount(number) && typeof id === 'string' && /^[\w-]{1,64}$/.test(id)
    ? { number, id }
    : undefined
}

/** A file is stored at the moment when its head came, and the bundle of that time lacks it when its end came later. */
const longestDownload: Milliseconds = 6 * hour

/**
 * The bundle at a path: its place, and the moment since which files were stored that it may lack. Throws a Failure when nothing can follow
 * it.
 */
export async function bundleBefore(
  path: string,
): Promise<{ readonly place: BundlePlace; readonly since: Milliseconds }> {
  const identity = await identityAt(path)
  const place = placeIn(identity)
  const found = parsedJson(identity)
  const made = isRecord(found) ? Date.parse(String(found['made'])) : Number.NaN
  if (identityProblem(identity) === undefined && place !== undefined && !Number.isNaN(made))
    return { place, since: made - longestDownload }
  throw seriesFailure(`${path} is not a bundle that another one can follow.`)
}

async function identityAt(path: string): Promise<string> {
  if (!path.endsWith('.tar'))
    return (await readBounded(join(path, identityName), maxLineBytes)).bytes.toString()
  for await (const { name, size, content } of tarMembers(createReadStream(path))) {
    return name === identityName && size <= maxLineBytes ? text(content) : ''
  }
  return ''
}

/** Why a bundle may not be imported yet, as the end of a sentence; undefined when it may. */
export function gapBefore(
  place: BundlePlace | undefined,
  imported: readonly string[],
): string | undefined {
  if (place?.after === undefined || imported.includes(place.after.id)) return undefined
  const { number, after } = place
  return `it is bundle ${number} and lacks what bundle ${after.number} (${after.id}) has, which was not imported here; import that one first, or have one written after the last that was`
}

const fileName = 'imported-bundles.json'
const version = 1
const mostRemembered = 1000

/** The names of the bundles that were imported into a cache directory. */
export async function importedBundles(directory: string): Promise<readonly string[]> {
  const found = await valueUnlessMissing(readBounded(join(directory, fileName), maxLineBytes))
  const value = found === undefined ? undefined : parsedJson(found.bytes.toString())
  const names = isRecord(value) && value['version'] === version ? value['imported'] : []
  return Array.isArray(names) ? names.map(String) : []
}

/** Remembers that a bundle was imported. */
export async function rememberImport(directory: string, id: string): Promise<void> {
  const before = (await importedBundles(directory)).filter(one => one !== id)
  const imported = [...before, id].slice(-mostRemembered)
  await writeFileAtomically(join(directory, fileName), jsonText({ version, imported }))
}

function seriesFailure(sentence: string): Failure {
  return new Failure(sentence, { code: 'bundle-series' })
}
