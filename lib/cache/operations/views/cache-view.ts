/**
 * The values of the cache page. The page shows the stored files, the space, retention, adopted suites and the last verification.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import {
  count,
  countOf,
  date as day,
  duration,
  elapsedText,
  moment,
  percent,
  size,
  sizeView,
} from '../../../figures.ts'
import { redactUrl } from '../../../log/redact.ts'
import type { View } from '../../../template.ts'
import type { Config } from '../../config/config.ts'
import type { CountedHoldings, Tally } from '../../stats/activity.ts'
import { keyExpires, type SignatureEnd, signatureEndText } from '../../suites/signing/apt-policy.ts'
import type { FeatureReport, OperationsSources, PageSection, SuiteState } from '../sources.ts'
import { behindText, contradictionsText } from '../state-text.ts'
import { withPlus } from './index-view.ts'

/** The used share of the file system above which the page warns. */
const nearlyFull = 0.9

const mostSuites = 100

/** Reads the values of the page from the sources. */
export async function cacheView(sources: OperationsSources): Promise<View> {
  const { config, clock } = sources
  const now = clock.now()
  const usage = await sources.usage()
  const suites = sources.suites()
  const { objects, bytes } = usage
  const { used, free, total: whole } = usage.filesystem ?? { total: 0, used: 0, free: 0 }
  // Space that is reserved for root counts neither as used nor as free, as with df.
  const total = used + free
  const reserved = Math.max(0, whole - total)
  const share = total > 0 ? used / total : 0
  const { index, other, negative, floor } = config.freshness
  const { unusedDays } = config.expiration
  return {
    objects: count(objects),
    objectNoun: objects === 1 ? 'object' : 'objects',
    ...sizeView(bytes),
    known: total > 0,
    share: total > 0 ? percent(share) : 'unknown',
    usedEnd: (share * 100).toFixed(2),
    cacheEnd: (Math.min(share, bytes / Math.max(1, total)) * 100).toFixed(2),
    nearlyFull: share > nearlyFull,
    used: sizeView(used),
    free: sizeView(free),
    total: sizeView(total),
    reserved: reserved > 0 && size(reserved),
    ...holdingsView(await sources.holdings(), sources.activity().archives),
    unused: unusedDays > 0 && countOf(unusedDays, 'day'),
    unreferenced: unreferencedView(config.retention, sources.unreferenced(), now),
    stays: sources.features.flatMap(({ stays }) => stays?.() ?? []),
    fresh: {
      index: duration(index),
      other: duration(other),
      negative: negative > 0 && duration(negative),
      floor: floor > 0 && duration(floor),
    },
    suites: suites.slice(0, mostSuites).map(suite => suiteView(suite, now, sources.features)),
    signers: signersOf(suites),
    moreSuites: suites.length > mostSuites && count(suites.length - mostSuites),
    sections: sources.features.flatMap(({ sections }) => sections?.() ?? []).map(sectionView),
  }
}

/** The values about packages that indexes no longer name; false when such packages are kept. */
function unreferencedView(
  { unreferenced }: Config['retention'],
  found: ReturnType<OperationsSources['unreferenced']>,
  now: Milliseconds,
): View | false {
  if (unreferenced === 0) return false
  return {
    after: duration(unreferenced),
    found: found !== undefined && {
      ago: elapsedText(Math.max(0, now - found.looked)),
      files: countOf(found.files, 'file'),
      size: size(found.bytes),
      removed: countOf(found.removedFiles, 'file'),
      removedSize: size(found.removedBytes),
    },
  }
}

const mostArchives = 20

/** The values about stored files of each archive. `archives` has its requests since the start. */
function holdingsView(holdings: CountedHoldings | undefined, archives: readonly Tally[]): View {
  const asked = new Map(archives.map(tally => [tally.name, tally]))
  return {
    counting: holdings === undefined,
    holdings: (holdings?.archives ?? []).slice(0, mostArchives).map(({ name, files, bytes }) => {
      const { requests = 0, hits = 0 } = asked.get(name) ?? {}
      const rate = requests === 0 ? 'none asked for' : percent(hits / requests)
      return { name, files: count(files), size: size(bytes), rate }
    }),
    moreHoldings:
      holdings !== undefined &&
      holdings.archives.length > mostArchives &&
      count(holdings.archives.length - mostArchives),
    largest: (holdings?.largest ?? []).map(file => ({
      url: withPlus(redactUrl(file.key)),
      explain: `/_cachesvc/explain?url=${encodeURIComponent(redactUrl(file.key))}`,
      size: size(file.size),
      used: moment(file.lastUsed),
    })),
  }
}

function suiteView(
  { name, date, signature, ...suite }: SuiteState,
  now: Milliseconds,
  features: readonly FeatureReport[],
): View {
  const { adopted, validUntil, files, bytes, behind, refusal, contradictions } = suite
  const expired = validUntil !== undefined && validUntil < now
  return {
    ...placeOf(name),
    date: date === undefined ? 'undated' : day(date),
    adopted: `${elapsedText(now - adopted)} ago`,
    validUntil: validUntil === undefined ? 'no end' : day(validUntil),
    expired,
    signature: signatureWords[signature.is],
    refused:
      signature.ends !== undefined &&
      signature.ends.at <= now &&
      signatureEndText(signature.ends, now),
    until: signature.ends !== undefined && untilText(signature.ends, now),
    indexes: files === 0 ? 'none read yet' : `${countOf(files, 'file')}, ${size(bytes)}`,
    remarks: features.flatMap(one => one.suite?.(name, { counts: true }) ?? []),
    disputed: contradictions?.map(contradictionsText).join('; ') ?? false,
    behind: refusal ?? (behind !== undefined && behindText(behind)),
  }
}

/** Until when a good signature counts. The year is enough for a key; a rule of apt is told with its day and its reason. */
function untilText(ends: SignatureEnd, now: Milliseconds): string {
  return ends.because === keyExpires
    ? `key until ${day(ends.at).slice(0, 4)}`
    : signatureEndText(ends, now)
}

/** The host of a suite, and its path below that. */
function placeOf(name: string): View {
  const [, host = '', suite = name] =
    /^(?:http:\/\/)?((?:https:\/\/)?[^/]+)\/(.+)$/.exec(name) ?? []
  return { host, suite }
}

/** The keys that have signed some of the suites, each once. */
function signersOf(suites: readonly SuiteState[]): string | false {
  const names = suites.flatMap(({ signature: { is, owner, by } }) =>
    is === 'good' && by !== undefined
      ? [`${owner === undefined ? '' : `${owner}, `}key ${by.slice(-16).toUpperCase()}`]
      : [],
  )
  return names.length > 0 && [...new Set(names)].join('; ')
}

const signatureWords = {
  good: 'good',
  'unknown-key': 'unknown key',
  bad: 'wrong',
  unsigned: 'not signed',
  unchecked: 'not checked: no keyring',
} as const

function sectionView({ id, title, state, paragraphs, remarks, rows }: PageSection): View {
  return { id, title, state: state ?? false, paragraphs, remarks, rows, hasRows: rows.length > 0 }
}
