/**
 * Makes the question for one of the Release files that a pointer names. No origin is asked for it. This file is pure.
 */
import { parentOf } from '../../../archive/path.ts'
import { fileUnder, type WantedFile } from '../../../fetch/wanted-file.ts'
import type { SuiteRecord } from '../shared-store.ts'

/** The question for the file with this key; undefined when the pointer does not name it. */
export function sharedFile(
  { release }: Pick<SuiteRecord, 'release'>,
  key: string,
): WantedFile | undefined {
  const entry = release.find(one => one.key === key)
  const file = fileUnder(key)
  if (entry === undefined || file === undefined) return undefined
  const { size, digest } = entry
  const claim = { size, digest, suite: parentOf(key) }
  return { ...file, claim, stored: undefined, onlyNear: true, insist: true }
}
