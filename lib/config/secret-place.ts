/**
 * Names the place of a secret outside the configuration: a file named by its path, or a credential of the service manager
 * (systemd.exec(5), LoadCredential=). Reads such files; no message quotes their content.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { unreadableReason } from '../errors.ts'
import { mismatch, type ReadResult, readFailure, readResult } from './reading.ts'
import { readPath } from './setting-kinds.ts'
import { type Kind, kind } from './settings.ts'

const LARGEST = 8192

/** An absolute path, or `credential:NAME`. */
export const secretPlace: Kind<string> = kind(
  { name: 'path or credential', json: { type: 'string' } },
  found => {
    if (typeof found !== 'string') return mismatch(found, 'an absolute path or credential:NAME')
    if (!found.startsWith('credential:')) return readPath(found)
    return credentialName(found) === undefined
      ? readFailure(
          'found no name of a credential, expected credential:NAME as LoadCredential= has it',
        )
      : readResult(found)
  },
)

/** Whose credentials are meant, where the service manager says nothing of their directory. */
export interface SecretContext {
  readonly service: string
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** The file of a place that `secretPlace` has read. */
export function secretFile(place: string, { service, environment }: SecretContext): string {
  const name = credentialName(place)
  if (name === undefined) return place
  return join(environment['CREDENTIALS_DIRECTORY'] || `/run/credentials/${service}`, name)
}

/** What is said of a secret that other users can read. */
export const readableByOthers =
  'can be read by every user of this machine; take that permission away: chmod o-r'

/** The name in `credential:NAME`, which is a name of a file; undefined for a path. */
export function credentialName(place: string): string | undefined {
  return /^credential:(?!\.{1,2}$)([A-Za-z0-9._-]{1,200})$/.exec(place)?.[1]
}

/**
 * The text of a secret without the line break at its end, and whether other users can read it. Throws what the file system throws.
 */
export function readSecretFile(
  path: string,
): ReadResult<{ readonly text: string; readonly isReadableByOthers: boolean }> {
  // O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stats = fstatSync(file)
    if (!stats.isFile()) return readFailure('is not a regular file')
    const block = Buffer.alloc(LARGEST + 1)
    const length = readSync(file, block, 0, block.length, 0)
    if (length > LARGEST) return readFailure(`is larger than ${LARGEST} bytes`)
    const text = block.toString('utf8', 0, length).replace(/\r?\n$/, '')
    return readResult({ text, isReadableByOthers: (stats.mode & 0o004) !== 0 })
  } finally {
    closeSync(file)
  }
}

/**
 * The text at a place, for a secret that no other user may read: a path, or a credential of the service. Else what is
 * wrong with it, to go on after the name of the place. Never throws.
 */
export function privateSecret(
  place: string,
  of: SecretContext,
): { readonly text: string } | { readonly problem: string } {
  try {
    const found = readSecretFile(secretFile(place, of))
    if (!found.ok) return { problem: found.problem }
    const { text, isReadableByOthers } = found.value
    return isReadableByOthers ? { problem: readableByOthers } : { text }
  } catch (error) {
    return { problem: `cannot be read: ${unreadableReason(error)}` }
  }
}
