/**
 * Tells what a file of an APT archive is from its path. Pure.
 *
 * # Facts
 * - Nothing marks the root of an archive: a flat repository keeps `Packages.gz` in any directory, so file names decide and
 *   depth does not.
 * - A kind is a promise about change, not a permission: what has no known shape is `other` and is cached with revalidation.
 * - Only a name that must change with its content makes a file immutable: a digest, or a version. A version is a promise that
 *   some archives break: they build a package anew under its old name.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import { type DigestAlgorithm, digests, type PackageIndex } from './listed-file.ts'

/**
 * - pool: a package or source file whose name carries its version (`.deb`, `.udeb`, `.dsc`, …)
 * - by-hash: an index addressed by its digest; its content can never change
 * - release: InRelease, Release, Release.gpg
 * - index: Packages, Sources, Contents, Translation, Components, Commands, icons, with or without compression
 * - pdiff: files below `Packages.diff/` and the like; their `Index` is an index
 * - other: everything else, cached with revalidation
 */
export type Kind = 'pool' | 'by-hash' | 'release' | 'index' | 'pdiff' | 'other'

export interface ArchivePath {
  readonly kind: Kind
  /** For by-hash: what the content must hash to, lower-case hex. */
  readonly digest?: { readonly algorithm: DigestAlgorithm; readonly hex: string }
  /** Set for a Release file and its detached signature, of which one is of no use without the other. */
  readonly detached?: true
  /** Set for a file of kind `other` below `dists/`, such as those of an installer: it goes with the indexes of its suite. */
  readonly ofSuite?: true
  /** Whether the name promises that the content never changes. */
  readonly immutable: boolean
  /**
   * For dated archives (`/archive/debian/20250520T000000Z/dists/…`): the moment asked for, milliseconds since the epoch.
   * What lies below is immutable once that moment has passed; a moment to come is answered with the newest there is.
   */
  readonly snapshot?: Milliseconds
}

/**
 * The kind of file a target's path names. Percent-encoding is decoded once; a broken escape stands for itself. Never throws.
 */
export function classify(path: string): ArchivePath {
  const segments = segmentsOf(path)
  const snapshot = snapshotOf(segments)
  const named = byName(segments)
  return snapshot === undefined ? named : { ...named, snapshot }
}

function byName(segments: readonly string[]): ArchivePath {
  const name = segments.at(-1) ?? ''
  const parent = segments.at(-2) ?? ''
  const digest = digestOf(segments)
  if (digest !== undefined) return { kind: 'by-hash', digest, immutable: true }
  if (name === 'InRelease') return { kind: 'release', immutable: false }
  if (RELEASE.test(name)) return { kind: 'release', detached: true, immutable: false }
  // Before the pool: a flat repository may well be called "pool".
  if (INDEX.test(name) || isDiffIndex(parent, name)) return { kind: 'index', immutable: false }
  if (parent.endsWith('.diff')) return { kind: 'pdiff', immutable: DATED_PATCH.test(name) }
  const parents = segments.slice(0, -1)
  if (isVersioned(name) || (parents.includes('pool') && isPoolFile(name))) {
    return { kind: 'pool', immutable: true }
  }
  const other = { kind: 'other', immutable: false } as const
  return parents.includes('dists') ? { ...other, ofSuite: true } : other
}

const RELEASE = /^Release(\.gpg)?$/

const COMPRESSION = '(\\.(gz|bz2|xz|lzma|zst|lz4|lz))?'

/**
 * The indexes a Release file names. Components is DEP-11 (appstream), whose icons come as archives by size; Commands is
 * command-not-found's.
 */
const INDEX = new RegExp(
  `^((Packages|Sources|Contents(-[\\w-]+)?|Translation-[\\w@-]+|Commands-[\\w-]+)${COMPRESSION}` +
    `|Components-[\\w-]+\\.yml${COMPRESSION}|CID-Index-[\\w-]+\\.json${COMPRESSION}` +
    `|icons-\\d+x\\d+(@\\d+)?\\.tar${COMPRESSION})$`,
)

/** `Packages.diff/Index` lists patches; `i18n/Index` is the older form for translations. */
function isDiffIndex(parent: string, name: string): boolean {
  return name === 'Index' && (parent.endsWith('.diff') || parent === 'i18n')
}

/**
 * A patch named by date and digest. A date alone is no promise: some archives merge patches anew under the old name, and
 * applying yesterday's merge to today's index costs the client its whole update.
 */
const DATED_PATCH =
  /^(T-)?\d{4}-\d\d-\d\d-\d{4}\.\d\d\b.*[-+._][0-9a-f]{32,128}(\.(gz|xz|bz2|zst))?$/

/** `…/by-hash/SHA256/<hex>`: the digest, when the digits are as many as the algorithm has and lower case as archives write them. */
function digestOf(segments: readonly string[]): ArchivePath['digest'] {
  const [marker, field, hex = ''] = segments.slice(-3)
  if (marker !== 'by-hash') return undefined
  const known = digests.find(one => one.field === field)
  if (hex.length !== known?.digits || !/^[0-9a-f]+$/.test(hex)) return undefined
  return { algorithm: known.algorithm, hex }
}

const NAME = '[A-Za-z0-9][A-Za-z0-9+.-]*'
/** Versions begin with a digit (deb-version(7)): `_current_` and `_latest_` are none. An epoch may stand in front. */
const VERSION = '[0-9][A-Za-z0-9.+~:%-]*'
const TAR = 'tar\\.(gz|bz2|xz|lzma|zst)'

/** `name_version_arch.deb`, and the parts of a source package with their detached signatures. */
const VERSIONED = new RegExp(
  `^${NAME}_(${VERSION})(_[A-Za-z0-9-]+\\.[ud]?deb` +
    `|\\.(dsc|diff\\.gz|((orig(-[A-Za-z0-9-]+)?|debian)\\.)?${TAR})(\\.(asc|sig))?)$`,
)

function isVersioned(name: string): boolean {
  const version = VERSIONED.exec(withoutUnderscore(name))?.[1]
  return version !== undefined && isVersion(version)
}

/**
 * Below `pool/` a package or source file under a looser name will do (`foo-1.2.3.deb`, a digest), as long as something in
 * it can tell two versions apart: some archives keep a `foo_latest_amd64.deb` there, whose content changes. A number alone cannot:
 * `app-365` is a product, and `-x86_64` a machine. Upload control files (`.changes`, `.buildinfo`) are signed anew under their old
 * names, so they are none.
 */
function isPoolFile(name: string): boolean {
  const file = POOL_FILE.exec(name)
  if (file === null) return false
  const stem = withoutUnderscore(name.slice(0, file.index))
  const [, version, architecture] = stem.split('_')
  if (version !== undefined && architecture !== undefined) return isVersion(version)
  if (/^[0-9a-f]{32,128}$/.test(stem)) return true
  return /[-_]v?[0-9]+[.:~+][0-9]|[-_]v?[0-9]{6}/.test(stem) && !MOVING.test(stem)
}

const POOL_FILE = new RegExp(`\\.([ud]?deb|dsc|diff\\.gz|${TAR})(\\.(asc|sig))?$`)

/** Whether the part of a name where the version stands is one: not the width of a machine, nor a word for the newest. */
function isVersion(text: string): boolean {
  return /^v?[0-9]/.test(text) && !/^[0-9]+-?bit$/i.test(text) && !MOVING.test(text)
}

/** `10-latest` is another file with each release. */
const MOVING = /(?:^|[^A-Za-z])(?:latest|current|newest|nightly)(?![A-Za-z0-9])/i

/** The name of an architecture with an underscore, which otherwise parts name, version and architecture. */
function withoutUnderscore(name: string): string {
  return name.replace('x86_64', 'x86-64')
}

/** The moment in a dated archive's path, when something lies below it and the digits are a date. */
function snapshotOf(segments: readonly string[]): Milliseconds | undefined {
  for (const segment of segments.slice(0, -1)) {
    const stamp = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(segment)
    if (stamp === null) continue
    const [, year, month, day, hour, minute, second] = stamp
    const moment = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
    if (!Number.isNaN(moment)) return moment
  }
  return undefined
}

/** The segments of a path, decoded after they were parted, so that an escaped slash stays inside its segment. */
function segmentsOf(path: string): readonly string[] {
  const segments: string[] = []
  for (const raw of path.split('/')) {
    const segment = decodedOnce(raw)
    if (segment === '' || segment === '.') continue
    if (segment === '..') segments.pop()
    else segments.push(segment)
  }
  if (path.endsWith('/')) segments.push('') // a directory, even if its name looks like that of a file
  return segments
}

/** Text with its escapes decoded, a character for each byte. */
export function decodedOnce(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** The decoded URL a key stands for; undefined when it has a query, which no index names. */
export function decodedUrl(key: string): string | undefined {
  if (key.includes('?')) return undefined
  // Bytes first, text second: an escape is a byte of UTF-8.
  return Buffer.from(decodedOnce(key), 'latin1').toString('utf8')
}

/** Everything before the last slash. */
export function parentOf(name: string): string {
  return name.slice(0, Math.max(0, name.lastIndexOf('/')))
}

/** The key of the directory of a Release file or its signature; undefined for other files. */
export function suiteOfRelease(key: string): string | undefined {
  return /\/(?:InRelease|Release|Release\.gpg)$/.test(key) ? parentOf(key) : undefined
}

/** The directories a URL lies in, the innermost first, without slashes at their ends. */
export function* directoriesOf(name: string): Generator<string> {
  const authority = name.indexOf('://') + 3
  for (let at = parentOf(name); at.length > authority; at = parentOf(at)) yield at
}

/** Whether the last part of a path is that of an index of packages, and of which kind. */
export function packageIndexOf(path: string): PackageIndex | undefined {
  const [, kind] = /(?:^|\/)(Packages|Sources)(?:\.(?:gz|bz2|xz|lzma|zst))?$/.exec(path) ?? []
  return kind === 'Packages' || kind === 'Sources' ? kind : undefined
}

/*
 * Recognises content that is plainly not the file it was asked for: the page of a captive portal, an empty file, another format.
 * Pure.
 *
 * # Facts
 * - Networks that want a login answer every request with 200 and a page; broken mirrors answer with an empty file. Stored under
 *   the name of a package, which never changes, such an answer would reach every later client.
 * - Formats begin with fixed bytes: ar (deb(5)), gzip (RFC 1952), xz, bzip2, zstd (RFC 8878), lzip, lzma as xz(1) writes it.
 *   Source control files and detached signatures begin with OpenPGP armour or with the field Format. Bytes that are none of these
 *   are no proof of anything, and pass.
 * - Servers that do not know an ending send their default label, which can be `text/html`. So the label decides only where the
 *   bytes say nothing, and where a digest is known neither decides: the whole content is compared with it.
 */

/** Why a response is not the file its name promises. */
export type Impostor = 'page' | 'empty' | 'format'

/** Bytes of the beginning that `impostor` needs to see. */
export const tellingBytes = 8

const ar = ['!<arch>\n']
const armour = '-----BEG'

/** How files with these endings begin. Endings that are not here promise text or nothing. */
const beginnings: Readonly<Record<string, readonly string[]>> = {
  deb: ar,
  udeb: ar,
  ddeb: ar,
  gz: ['\x1f\x8b'],
  xz: ['\xfd7zXZ\0'],
  bz2: ['BZh'],
  zst: ['\x28\xb5\x2f\xfd'],
  lz: ['LZIP'],
  lzma: [']\0\0'],
  dsc: [armour, 'Format: '],
  asc: [armour],
}

const formats: readonly string[] = [...new Set(Object.values(beginnings).flat())]

/** Whether this response cannot be judged by what its name promises: then its beginning need not be waited for. */
export function promisesNothing({ kind }: ArchivePath): boolean {
  return kind === 'other' || kind === 'by-hash'
}

/**
 * What is wrong with a 200 for the file `name`, which begins with `beginning`; undefined when nothing shows. That is shorter than
 * `telling` only when the content is.
 */
export function impostor(
  file: ArchivePath,
  name: string,
  fields: Fields,
  beginning: Buffer,
): Impostor | undefined {
  if (promisesNothing(file)) return undefined
  const text = beginning.subarray(0, tellingBytes).toString('latin1')
  if (isPage(beginning)) return 'page'
  const ending = /\.([a-z0-9]+)$/.exec(name)?.[1] ?? ''
  const promised = Object.hasOwn(beginnings, ending) ? beginnings[ending] : undefined
  const begins = (beginning: string): boolean => text.startsWith(beginning)
  const fixed = promised !== undefined || file.kind === 'pool'
  if (fixed && text === '') return 'empty'
  const coded = fields.has('Content-Encoding')
  if (!coded && promised?.some(begins)) return undefined
  const type = fields.get('Content-Type') ?? ''
  if (fixed && /^\s*(text\/html|application\/xhtml)/i.test(type)) return 'page'
  return promised !== undefined && !coded && formats.some(begins) ? 'format' : undefined
}

/** Whether content that begins so is a page, whatever it was asked for as. */
export function isPage(beginning: Buffer): boolean {
  return /^(\xef\xbb\xbf)?\s*</.test(beginning.subarray(0, tellingBytes).toString('latin1'))
}
