/**
 * Finds mistakes and dangers in the settings under `state` and `keys`. Pure.
 */
import { type Remarks, valueRemarks } from '../../../config/reading.ts'
import { isPublicAddress } from '../../../ip.ts'
import type { SettingValues } from '../settings.ts'

/** Remarks on a shared store, and on keys that are distributed. */
export function checkState({ state, keys, session }: SettingValues): Remarks {
  const { problems, warnings, wrong, warn } = valueRemarks()
  const { url } = state
  if (keys.file !== undefined && !keys.shared) {
    wrong(['keys', 'file'], 'is of keys.shared alone; set that, or leave this out')
  }
  if (url === undefined) {
    for (const name of ['user', 'passwordFile', 'certificates', 'sentinelPasswordFile'] as const) {
      if (state[name] !== undefined) warn(['state', name], 'has no effect without state.url')
    }
    if (state.sentinels.length > 0) warn(['state', 'sentinels'], 'has no effect without state.url')
    return { problems, warnings }
  }
  if (state.user !== undefined && state.passwordFile === undefined) {
    wrong(['state', 'user'], 'needs state.passwordFile beside it')
  }
  if (state.certificates !== undefined && !url.tls) {
    warn(['state', 'certificates'], 'has no effect: the store is reached without TLS (redis://)')
  }
  if (!url.tls && isPublicAddress(url.host)) {
    warn(
      ['state', 'url'],
      'the password of the store and the ends of sessions cross the Internet in the clear; use rediss://',
    )
  }
  if (!session.revocation) {
    warn(
      ['session', 'revocation'],
      'is off, so no end of a session is passed on to the other instances',
    )
  }
  return { problems, warnings }
}
