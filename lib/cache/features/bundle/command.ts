/**
 * The command `cachesvc import` imports a bundle, or packages from the cache of apt-cacher-ng or apt. The command `cachesvc export`
 * writes stored files as a bundle.
 */
import { randomUUID } from 'node:crypto'
import { constants, type Stats } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Clock, systemClock } from '../../../async/clock.ts'
import { Failure, systemCode, valueUnlessMissing } from '../../../errors.ts'
import { count, countOf, size } from '../../../figures.ts'
import { createLog, type Logger } from '../../../log/log.ts'
import { packageVersion } from '../../../package.ts'
import { type ExitCode, exitCodes, print } from '../../../program.ts'
import { withStore } from '../../cli/base/store.ts'
import { ProgressLine, printComplaint } from '../../cli/base/terminal.ts'
import type { Config } from '../../config/config.ts'
import { rulesOf } from '../../policy/policy.ts'
import { mustBeOwner } from '../../store/disk/health.ts'
import { isKeepingKey } from '../../store/key.ts'
import type { RetentionRules } from '../../store/retention-rules.ts'
import { openStore } from '../../store/store.ts'
import { openAdopted, standingOf } from '../../suites/known-suites.ts'
import type { CarriedRecords, ChooseFiles } from '../feature.ts'
import { type ImportCounts, type LeftOutReason, leftOutReasons } from './adopt.ts'
import { exportBundle } from './export.ts'
import { identityName } from './format.ts'
import { importBundle } from './import-bundle.ts'
import { importTree } from './import-tree.ts'
import { type Choice, chooseFiles } from './indexed.ts'
import {
  type BundlePlace,
  bundleBefore,
  gapBefore,
  importedBundles,
  placeAfter,
  placeIn,
  rememberImport,
} from './series.ts'
import { openSink } from './sink.ts'

/**
 * Imports a bundle or a directory, and prints a summary. The exit code is that of a failure when the store has none of the files
 * afterwards, or when a file could not be stored. Throws when the service runs, because the service owns the store.
 */
export async function printImport(
  path: string,
  config: Config,
  { dryRun, records }: { readonly dryRun: boolean; readonly records: readonly CarriedRecords[] },
): Promise<ExitCode> {
  const isDirectory = (await readableStats(path)).isDirectory()
  const identity = join(path, identityName)
  const isBundle = !isDirectory || (await valueUnlessMissing(stat(identity))) !== undefined
  await mustBeOwner(config.cacheDirectory)
  const around = { clock: systemClock, log: createLog({ level: 'warn', to: process.stderr }) }
  const put = new Set<string>()
  const store = await openStore({
    ...around,
    directory: config.cacheDirectory,
    memory: 0,
    keepUnnamed: true,
  })
  store.listen({ named: ({ digest }) => put.add(digest) })
  const line = new ProgressLine(process.stderr, systemClock)
  let [found, read] = [0, 0]
  const onRead = (bytes: number): void => {
    read += bytes
    line.show(`${size(read)} read${found > 0 ? ` of at most ${size(2 * found)}` : ''}`)
  }
  const before = isBundle ? await importedBundles(config.cacheDirectory) : []
  let place: BundlePlace | undefined
  const onIdentity = (text: string): string | undefined => {
    place = placeIn(text)
    return gapBefore(place, before)
  }
  let imported: ImportCounts
  try {
    if (!dryRun) store.retain(await importRules(config, { put, records, ...around }))
    imported = isBundle
      ? await importBundle(path, isDirectory, { store, records, dryRun, onIdentity, onRead })
      : await importTree({
          directory: path,
          store,
          rules: rulesOf(config),
          now: systemClock.now(),
          dryRun,
          onRead,
          onFound: bytes => {
            found = bytes
          },
        })
    for (const { name, add } of dryRun ? [] : imported.records) {
      const because = await add(config.cacheDirectory)
      if (because !== undefined) imported.leftOut.push({ name, reason: 'record', because })
    }
  } finally {
    line.end()
    await store.close()
  }
  await print(summary(imported, dryRun))
  const { files, known, leftOut } = imported
  const whole = files + known > 0 && leftOut.every(({ reason }) => reason !== 'not-stored')
  if (whole && !dryRun && place !== undefined) await rememberImport(config.cacheDirectory, place.id)
  return whole ? exitCodes.success : exitCodes.failure
}

/**
 * The rules of retention for an import. They make room as the service does, but remove the contents that the import has `put` last,
 * because no adopted index names them yet. They leave old files and old versions to the service.
 */
export async function importRules(
  config: Config,
  { put, records, clock, log }: ImportRulesParts,
): Promise<RetentionRules> {
  const { cacheDirectory, retention, suites } = config
  const adopted = await openAdopted({ clock, log, cacheDirectory, memory: suites.memory })
  const keepers = await Promise.all(records.map(one => one.keepersIn(cacheDirectory)))
  const standing = (digest: string) => {
    if (keepers.some(keeps => keeps(digest))) return 'recorded'
    return put.has(digest) ? 'generation' : standingOf(adopted, digest)
  }
  return { ...retention, unusedDays: 0, versions: 0, standing }
}

interface ImportRulesParts {
  /** The digests of the contents that the import has put. */
  readonly put: ReadonlySet<string>
  readonly records: readonly CarriedRecords[]
  readonly clock: Clock
  readonly log: Logger
}

const mostListed = 10

function summary({ files, bytes, known, leftOut, records }: ImportCounts, dryRun: boolean): string {
  const did = dryRun ? 'would import' : 'imported'
  const lines = [`${did} ${countOf(files, 'file')}, ${size(bytes)}`]
  for (const { name, text } of records) {
    if (leftOut.some(one => one.reason === 'record' && one.name === name)) continue
    lines.push(text)
  }
  if (known > 0) lines.push(`${countOf(known, 'file')} stored already`)
  for (const reason of Object.keys(leftOutReasons) as LeftOutReason[]) {
    const these = leftOut.filter(one => one.reason === reason)
    if (these.length === 0) continue
    lines.push(`left out ${countOf(these.length, 'file')}, ${leftOutReasons[reason]}:`)
    for (const { name, because } of these.slice(0, mostListed)) {
      lines.push(`  ${name}${because === undefined ? '' : `: ${because}`}`)
    }
    if (these.length > mostListed) lines.push(`  and ${count(these.length - mostListed)} more`)
  }
  return `${lines.join('\n')}\n`
}

/** The stats of a path. Throws with advice when this user, who is that of the service and can read few directories, cannot read it. */
async function readableStats(path: string): Promise<Stats> {
  try {
    await access(path, constants.R_OK)
    return await stat(path)
  } catch (cause) {
    if (systemCode(cause) !== 'EACCES') throw cause
    const sentence = `this user may not read ${resolve(path)}; put it where that user can, such as /var/tmp`
    throw new Failure(sentence, { code: 'import-unreadable', cause })
  }
}

/**
 * Exports the chosen files, and with `after` only those that the bundle at that path and the ones before it do not have. Without any, the
 * exit code is that of a failure. Throws when the bundle cannot be written, and leaves none.
 */
export async function printExport(
  path: string,
  config: Config,
  { after, ...choice }: Choice & { readonly after: string | undefined },
): Promise<ExitCode> {
  const before = after === undefined ? undefined : await bundleBefore(after)
  const words = [...choice.archives, ...choice.suites].sort()
  const place = placeAfter(before?.place, randomUUID(), words)
  const choose: ChooseFiles = async store => {
    const { chosen, unread } = await chooseFiles(store, choice)
    // Contents that are kept for builds are exported with their builds.
    return { chosen: key => !isKeepingKey(key) && chosen(key), unread }
  }
  return exportChosen(path, config, choose, { place, since: before?.since })
}

/** The place of a bundle in its series, and the moment since which files were stored that the ones before it may lack. */
interface SeriesPart {
  readonly place?: BundlePlace
  readonly since?: number | undefined
}

/** Exports the files that a function of the store chooses, and further members. */
export function exportChosen(
  path: string,
  config: Config,
  choose: ChooseFiles,
  { place, since }: SeriesPart = {},
): Promise<ExitCode> {
  return withStore(config, async store => {
    const { chosen, unread, members } = await choose(store)
    for (const { key, because } of unread) {
      await printComplaint(
        `${key} cannot be read, so packages that only it names are missing: ${because}`,
      )
    }
    const line = new ProgressLine(process.stderr, systemClock)
    const now = systemClock.now()
    const sink = await openSink(path, now)
    let read = 0
    const onRead = (bytes: number): void => {
      read += bytes
      line.show(`${size(read)} written`)
    }
    try {
      const by = `cachesvc ${packageVersion()}`
      const parts = { store, sink, now, chosen, members, place, since, by, onRead }
      const exported = await exportBundle(parts)
      line.end()
      for (const { key, because } of exported.leftOut)
        await printComplaint(`left out ${key}: ${because}`)
      if (exported.files === 0) {
        await sink.abandon()
        const { length } = exported.leftOut
        const none =
          length === 0 ? 'nothing stored is meant' : `${countOf(length, 'file')} left out`
        await printComplaint(`${none}: no bundle was written`)
        return exitCodes.failure
      }
      await sink.finish()
      const { files, bytes } = exported
      const name = place?.after === undefined ? '' : `bundle ${place.number}, `
      await print(`exported ${name}${countOf(files, 'file')}, ${size(bytes)}, to ${path}\n`)
      return exitCodes.success
    } catch (error) {
      line.end()
      await sink.abandon()
      throw error
    }
  })
}
