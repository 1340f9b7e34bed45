/**
 * Recognises the kind of a file of an APT archive by its path. This file is pure.
 *
 * # Facts
 * - No path marks the root of an archive: a flat repository has `Packages.gz` in any directory. So file names decide, not the depth.
 * - A kind is a promise about change, not a permission. A file whose name has no known form is `other` and is cached with revalidation.
 * - A file is immutable only when its name must change with its content, because the name has a digest or a version. Some archives break
 *   this promise for versions: they build a package again under its old name.
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
  /** The digest that a by-hash name has, lower-case hex. */
  readonly digest?: { readonly algorithm: DigestAlgorithm; readonly hex: string }
  /** Set for Release and Release.gpg. Clients need both of them together. */
  readonly detached?: true
  /** Set for a file of kind `other` below `dists/`, such as a file of an installer. It belongs to the indexes of its suite. */
  readonly ofSuite?: true
  /**
   * Set for a file of kind `other` of a repository for dnf, zypper, apk or pacman. They compare packages with the metadata, so that
   * neither may be older than the other.
   */
  readonly foreign?: true
  /** Whether the name promises that the content never changes. */
  readonly immutable: boolean
  /**
   * The moment in the path of a dated archive (`/archive/debian/20250520T000000Z/dists/…`), milliseconds since the epoch. The files below
   * it are immutable once that moment has passed. Until then the archive answers with its newest files.
   */
  readonly snapshot?: Milliseconds
}

/**
 * Classifies the file that a target's path names. Percent-encoding is decoded once, and a broken escape stays as it is. Never throws.
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
  // Indexes are recognised before pool files, because the directory of a flat repository may be called "pool".
  if (INDEX.test(name) || isDiffIndex(parent, name)) return { kind: 'index', immutable: false }
  if (parent.endsWith('.diff')) return { kind: 'pdiff', immutable: DATED_PATCH.test(name) }
  const parents = segments.slice(0, -1)
  if (isVersioned(name) || (parents.includes('pool') && isPoolFile(name))) {
    return { kind: 'pool', immutable: true }
  }
  const other = { kind: 'other', immutable: false } as const
  if (parents.includes('dists')) return { ...other, ofSuite: true }
  return parent === 'repodata' || FOREIGN.test(name) ? { ...other, foreign: true } : other
}

/** Packages and metadata of rpm (with repodata/), apk and pacman, with their signatures. */
const FOREIGN =
  /^(?:.+\.d?rpm|.+\.apk|APKINDEX\.tar\.gz|.+\.pkg\.tar(?:\.(?:zst|xz|gz))?(?:\.sig)?|[\w.-]+\.(?:db|files)(?:\.tar\.\w+)?(?:\.sig)?)$/

const RELEASE = /^Release(\.gpg)?$/

const COMPRESSION = '(\\.(gz|bz2|xz|lzma|zst|lz4|lz))?'

/**
 * The names of indexes in a Release file. Components files are those of DEP-11 (appstream), which has an archive of icons for each size.
 * Commands files are those of command-not-found.
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
 * The name of a patch with a date and a digest. A date alone does not make a patch immutable: some archives merge patches again under the
 * old name, and an old merge fails on a new index, so that the client loses its whole update.
 */
const DATED_PATCH =
  /^(T-)?\d{4}-\d\d-\d\d-\d{4}\.\d\d\b.*[-+._][0-9a-f]{32,128}(\.(gz|xz|bz2|zst))?$/

/** The digest in `…/by-hash/SHA256/<hex>`. It must have the number of digits of its algorithm, in lower case as archives write it. */
function digestOf(segments: readonly string[]): ArchivePath['digest'] {
  const [marker, field, hex = ''] = segments.slice(-3)
  if (marker !== 'by-hash') return undefined
  const known = digests.find(one => one.field === field)
  if (hex.length !== known?.digits || !/^[0-9a-f]+$/.test(hex)) return undefined
  return { algorithm: known.algorithm, hex }
}

const NAME = '[A-Za-z0-9][A-Za-z0-9+.-]*'
/** A version begins with a digit (deb-version(7)), so `_current_` and `_latest_` are not versions. It may begin with an epoch. */
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
 * Whether a name below `pool/` is that of an immutable package or source file. Looser names are accepted there (`foo-1.2.3.deb`, a digest),
 * but the name must contain a version or a digest: some archives have a `foo_latest_amd64.deb` whose content changes. A number alone is not
 * a version: `app-365` is a product, and `-x86_64` an architecture. Upload control files (`.changes`, `.buildinfo`) are not accepted,
 * because archives sign them again under their old names.
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

/** Whether the second part of a name is a version, and not the width of an architecture or a word such as `latest`. */
function isVersion(text: string): boolean {
  return /^v?[0-9]/.test(text) && !/^[0-9]+-?bit$/i.test(text) && !MOVING.test(text)
}

/** The words for a file whose content changes with each release, such as `10-latest`. */
const MOVING = /(?:^|[^A-Za-z])(?:latest|current|newest|nightly)(?![A-Za-z0-9])/i

/** Replaces the underscore in `x86_64`, because an underscore separates name, version and architecture. */
function withoutUnderscore(name: string): string {
  return name.replace('x86_64', 'x86-64')
}

/** The moment in a dated archive's path; undefined when the digits are not a date or no path follows them. */
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

/** The segments of a path. They are decoded after the path was split, so that an escaped slash stays inside its segment. */
function segmentsOf(path: string): readonly string[] {
  const segments: string[] = []
  for (const raw of path.split('/')) {
    const segment = decodedOnce(raw)
    if (segment === '' || segment === '.') continue
    if (segment === '..') segments.pop()
    else segments.push(segment)
  }
  // The empty last segment marks a directory, even if its name looks like that of a file.
  if (path.endsWith('/')) segments.push('')
  return segments
}

/** Decodes the escapes of a text once. Each decoded byte is one character. */
export function decodedOnce(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
}

/** The decoded URL of a key; undefined when the key has a query, because no index names one. */
export function decodedUrl(key: string): string | undefined {
  if (key.includes('?')) return undefined
  // The escapes become bytes first and text afterwards, because an escape is one byte of UTF-8.
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

/** The directories above a URL, the innermost first, without slashes at their ends. */
export function* directoriesOf(name: string): Generator<string> {
  const authority = name.indexOf('://') + 3
  for (let at = parentOf(name); at.length > authority; at = parentOf(at)) yield at
}

/** The kind of index of packages that the last part of a path names; undefined for any other file. */
export function packageIndexOf(path: string): PackageIndex | undefined {
  const [, kind] = /(?:^|\/)(Packages|Sources)(?:\.(?:gz|bz2|xz|lzma|zst))?$/.exec(path) ?? []
  return kind === 'Packages' || kind === 'Sources' ? kind : undefined
}

/*
 * Recognises a content that is clearly not the requested file: the page of a captive portal, an empty file, another format. This part is
 * pure.
 *
 * # Facts
 * - A network that requires a login answers every request with 200 and a page. A broken mirror answers with an empty file. If such an answer
 *   were stored under the name of a package, which never changes, every later client would get it.
 * - Formats begin with fixed bytes: ar (deb(5)), gzip (RFC 1952), xz, bzip2, zstd (RFC 8878), lzip, lzma as xz(1) writes it. Source control
 *   files and detached signatures begin with OpenPGP armour or with the field Format. A content with other first bytes is not refused.
 * - A server that does not know a suffix sends its default Content-Type, which can be `text/html`. So the Content-Type decides only when the
 *   first bytes do not. When a digest is known, neither decides, because the whole content is compared with the digest.
 */

/** Why a response is not the file that its name promises. */
export type Impostor = 'page' | 'empty' | 'format'

/** The number of first bytes that `impostor` needs. */
export const tellingBytes = 8

const ar = ['!<arch>\n']
const armour = '-----BEG'

/** The first bytes of files by their suffix. A file with another suffix is text or has no fixed first bytes. */
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

/** Whether the name of a file promises no format, so that its first bytes are not needed. */
export function promisesNothing({ kind }: ArchivePath): boolean {
  return kind === 'other' || kind === 'by-hash'
}

/**
 * Why a 200 for the file `name` is not that file; undefined when no error shows. `beginning` has the first `tellingBytes` bytes, or the
 * whole content when that is shorter.
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

/** Whether a content with these first bytes is a page, for any name. */
export function isPage(beginning: Buffer): boolean {
  return /^(\xef\xbb\xbf)?\s*</.test(beginning.subarray(0, tellingBytes).toString('latin1'))
}
