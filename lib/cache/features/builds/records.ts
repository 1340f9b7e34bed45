/**
 * The records of builds on disk, as the service and the commands read them.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { explainError, systemCode, valueUnlessMissing } from '../../../errors.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import { readBounded } from '../../../files/bounded-file.ts'
import { makeDirectory } from '../../../files/directory-owner.ts'
import { Layout } from '../../store/disk/disk.ts'
import { type Build, buildNameRule, contentsOf, isBuildName } from './build.ts'
import {
  buildSuffix,
  decodeBuild,
  encodeBuild,
  mostRecordBytes,
  recordsDirectory,
} from './build-file.ts'

/** The directory of the records of builds. */
export function buildsDirectory(cacheDirectory: string): string {
  return join(new Layout(cacheDirectory).root, recordsDirectory)
}

/** The file of the record of a build. */
export function recordPath(cacheDirectory: string, name: string): string {
  return join(buildsDirectory(cacheDirectory), `${name}${buildSuffix}`)
}

/** A record that cannot be read, with the reason and the digests in its text. */
export interface UnreadableRecord {
  readonly because: string
  readonly digests: ReadonlySet<string> | 'unknown'
}

/** The records of a cache directory with their names. Rejects when they cannot be listed. */
export async function readBuilds(
  cacheDirectory: string,
): Promise<ReadonlyArray<{ readonly name: string; readonly record: Build | UnreadableRecord }>> {
  const names = (await valueUnlessMissing(readdir(buildsDirectory(cacheDirectory)))) ?? []
  const found: { name: string; record: Build | UnreadableRecord }[] = []
  for (const file of names) {
    const name = file.slice(0, -buildSuffix.length)
    if (!file.endsWith(buildSuffix) || !isBuildName(name)) continue
    found.push({ name, record: await readRecord(cacheDirectory, name) })
  }
  return found
}

/** Finds the contents that the records of a cache directory name, or may name. Rejects when they cannot be listed. */
export async function keepersIn(cacheDirectory: string): Promise<(digest: string) => boolean> {
  const records = await readBuilds(cacheDirectory)
  const named = records.map(({ record }) =>
    'because' in record ? record.digests : contentsOf([record]),
  )
  return digest => named.some(one => one === 'unknown' || one.has(digest))
}

/** Writes the record of a build from a bundle, while no service runs. Resolves to a sentence when another build has its name. */
export async function addRecord(cacheDirectory: string, build: Build): Promise<string | undefined> {
  await makeDirectory(buildsDirectory(cacheDirectory))
  try {
    const path = recordPath(cacheDirectory, build.name)
    await writeFileAtomically(path, encodeBuild(build, false), { exclusive: true })
    return undefined
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error
    const known = await readBuild(cacheDirectory, build.name)
    const same =
      typeof known !== 'string' && encodeBuild(known, false) === encodeBuild(build, false)
    return same ? undefined : `there is another build ${build.name}: remove it first`
  }
}

/** The build of this name, or a sentence when there is none or it cannot be read. */
export async function readBuild(cacheDirectory: string, name: string): Promise<Build | string> {
  if (!isBuildName(name)) return buildNameRule
  const record = await readRecord(cacheDirectory, name)
  return 'because' in record ? record.because : record
}

async function readRecord(cacheDirectory: string, name: string): Promise<Build | UnreadableRecord> {
  const path = recordPath(cacheDirectory, name)
  try {
    const found = await valueUnlessMissing(readBounded(path, mostRecordBytes))
    if (found === undefined) return { because: 'it does not exist', digests: new Set() }
    const text = found.bytes.toString()
    const build = decodeBuild(text)
    if (typeof build !== 'string' && build.name === name) return build
    const because = typeof build === 'string' ? build : 'it is that of another build'
    const named = text.matchAll(/"sha256":"([0-9a-f]{64})"/g)
    return { because, digests: new Set(Array.from(named, ([, digest = '']) => digest)) }
  } catch (error) {
    return { because: explainError(error), digests: 'unknown' }
  }
}
