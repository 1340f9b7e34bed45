/**
 * Release and InRelease: what a suite says of itself and which indexes it has. Pure; whether the signature holds is not
 * asked here.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { unframe } from './clearsigned.ts'
import { stanzasOf } from './deb822.ts'
import { type ListedFile, mergeLists } from './listed-file.ts'

export interface Release {
  readonly origin: string | undefined
  readonly suite: string | undefined
  readonly codename: string | undefined
  readonly components: readonly string[]
  readonly architectures: readonly string[]
  /** When it was made. */
  readonly date: Milliseconds | undefined
  /** When clients stop to believe it. */
  readonly validUntil: Milliseconds | undefined
  readonly acquireByHash: boolean
  /** The indexes by their path, which begins where the Release file lies. */
  readonly files: ReadonlyMap<string, ListedFile>
}

export type ReadRelease =
  | { readonly release: Release; readonly because?: undefined }
  | { readonly release?: undefined; readonly because: string }

/** Longest Release file that is read, bytes; the largest suites have half a megabyte. */
export const maxReleaseBytes = 32 * 1024 * 1024

const single = ['Origin', 'Suite', 'Codename', 'Date', 'Valid-Until', 'Acquire-By-Hash'] as const
const others = [
  'Label',
  'Components',
  'Architectures',
  'MD5Sum',
  'SHA1',
  'SHA256',
  'SHA512',
] as const

/** Reads a Release file, signed in place or not; what is none is told with the reason. Never throws. */
export function readRelease(content: Uint8Array): ReadRelease {
  if (content.byteLength > maxReleaseBytes) return { because: 'it is too long' }
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength)
  const framing = unframe(bytes.toString('latin1'))
  if (framing.kind === 'malformed') return { because: framing.because }
  const [stanza] = stanzasOf(Buffer.from(framing.text, 'latin1'), {
    wanted: [...single, ...others],
  })
  if (stanza === undefined) return { because: 'it is empty' }
  if (stanza.damaged) return { because: 'it is not a list of fields' }
  if (stanza.fields.size === 0) return { because: 'it has none of the fields of a Release file' }
  const field = (name: string) => stanza.fields.get(name.toLowerCase())
  const release: Release = {
    origin: field('Origin'),
    suite: field('Suite'),
    codename: field('Codename'),
    components: words(field('Components')),
    architectures: words(field('Architectures')),
    date: moment(field('Date')),
    validUntil: moment(field('Valid-Until')),
    acquireByHash: field('Acquire-By-Hash')?.toLowerCase() === 'yes',
    files: mergeLists([
      ['sha512', field('SHA512')],
      ['sha256', field('SHA256')],
      ['sha1', field('SHA1')],
      ['md5', field('MD5Sum')],
    ]),
  }
  return { release }
}

function words(value: string | undefined): readonly string[] {
  return (value ?? '').split(/\s+/).filter(word => word !== '')
}

/** A date as RFC 5322 writes it, in UTC. */
function moment(value: string | undefined): Milliseconds | undefined {
  const parsed = value === undefined ? Number.NaN : Date.parse(value)
  return Number.isNaN(parsed) ? undefined : parsed
}
