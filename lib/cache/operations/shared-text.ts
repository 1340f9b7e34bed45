/**
 * The text about the store that several nodes share, for a page, `cachesvc status` and `cachesvc explain`.
 */
import { count, countOf, size } from '../../figures.ts'
import type { SharedState } from '../shared/shared-store.ts'

/** One line that says whether the store answers, how many bytes were read and written, and how many uploads wait. */
export function sharedText(state: SharedState): string {
  const { url, resting, unwritable, leases, uploads, received, sent, wrong } = state
  const ill = resting ?? unwritable
  const known = resting === undefined ? 'answers' : 'is not asked now'
  return [
    `${url} ${known}${ill === undefined ? '' : ` (${ill})`}`,
    `${size(received)} read and ${size(sent)} written`,
    `${countOf(uploads.waiting, 'upload')} waiting${uploads.dropped === 0 ? '' : `, ${count(uploads.dropped)} given up`}`,
    ...(wrong === 0 ? [] : [`${countOf(wrong, 'content')} found wrong and removed`]),
    ...(leases === 'off' ? ['without leases, so several nodes may fetch one file'] : []),
  ].join('; ')
}
