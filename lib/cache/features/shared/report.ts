/**
 * What pages, `status` and `explain` say of the store that several nodes share.
 */
import { count, countOf, size } from '../../../figures.ts'
import type { TargetUri } from '../../../http/message/target.ts'
import type { Explanation, FeatureReport } from '../../operations/sources.ts'
import type { SharedState, SharedStore } from './shared-store.ts'

/** Makes the report. `isShared` tells whether the nodes share a file. */
export function sharedReport(
  shared: Pick<SharedStore, 'state'>,
  isShared: (uri: TargetUri) => boolean,
): FeatureReport {
  return {
    status: () => {
      const text = sharedText(shared.state)
      const members = sharedStatus(shared.state)
      return { members, lines: [{ name: 'Shared store', text }] }
    },
    sections: () => [
      {
        id: 'shared',
        title: 'Shared store',
        paragraphs: [`${sharedText(shared.state)}.`],
        remarks: [],
        rows: [],
      },
    ],
    findings: ({ uri, bytes }) => sharedFindings(shared.state, isShared(uri), bytes),
  }
}

/** What `explain` says of a file: first whether it is shared, and once its size is known whether it is too large for that. */
export function sharedFindings(
  state: SharedState,
  isShared: boolean,
  bytes: number | undefined,
): readonly Explanation[] {
  if (bytes === undefined) {
    return [{ question: 'Shared store', answer: isShared ? sharedText(state) : notShared }]
  }
  return isShared && bytes > (state.largest ?? bytes)
    ? [{ question: 'Not shared', answer: tooLarge }]
    : []
}

const tooLarge =
  'it is larger than 5 GiB, which is the most that one request to the shared store takes: each node fetches it'
const notShared =
  'not asked: files of an archive with `clients` or `credentials`, and targets with a query, are not shared'

/** The member of `cachesvc status --json`. */
export function sharedStatus(state: SharedState) {
  return { shared: { ...sharedFigures(state), text: sharedText(state) } }
}

function sharedFigures(state: SharedState) {
  const { url, resting, conditionalWrites, uploads, received, sent, wrong } = state
  return {
    url,
    answers: resting === undefined,
    conditional_writes: conditionalWrites,
    uploads_waiting: uploads.waiting,
    uploads_dropped: uploads.dropped,
    received_bytes: received,
    sent_bytes: sent,
    wrong,
  }
}

/** One line that says whether the store answers, how many bytes were read and written, and how many uploads wait. */
export function sharedText(state: SharedState): string {
  const { url, resting, unwritable, conditionalWrites, uploads, received, sent, wrong } = state
  const ill = resting ?? unwritable
  const known = resting === undefined ? 'answers' : 'is not asked now'
  return [
    `${url} ${known}${ill === undefined ? '' : ` (${ill})`}`,
    `${size(received)} read and ${size(sent)} written`,
    `${countOf(uploads.waiting, 'upload')} waiting${uploads.dropped === 0 ? '' : `, ${count(uploads.dropped)} given up`}`,
    ...(wrong === 0 ? [] : [`${countOf(wrong, 'content')} found wrong and removed`]),
    ...(conditionalWrites === 'off'
      ? ['no conditional writes, so of two nodes that write a suite at once the later one wins']
      : []),
  ].join('; ')
}
