/**
 * Answers the commands that ask a running service over its admin socket: status, stats, explain, remove, refresh, release, changes,
 * build, retention, reload, and the removals of verify-repos. A request looks like `{ do: 'status', json: true }`.
 */

import {
  type CommandAnswer,
  complaintAnswer,
  outputAnswer,
  type RequestHandler,
  reloadAnswer,
} from '../../admin-socket.ts'
import type { Reload } from '../../daemon.ts'
import { countOf, size } from '../../figures.ts'
import { isRecord, jsonText } from '../../json.ts'
import { exitCodes } from '../../program.ts'
import type { CommandAnswering } from '../features/feature.ts'
import { unremovableText } from '../operations/endpoint.ts'
import { explainedRequest, explanationText } from '../operations/explain.ts'
import type { OperationsSources } from '../operations/sources.ts'
import type { Rules } from '../policy/policy.ts'
import type { NegativeMemory } from '../rfc9111/lookup.ts'
import { calendarDate } from '../stats/statistics.ts'
import type { Store } from '../store/store.ts'
import type { Suites } from '../suites/suites.ts'
import type { Updates } from '../suites/updates/updates.ts'
import { type RetentionCommandParts, retentionAnswer } from './retention.ts'
import { proposal, refresh, remove, selectionOf } from './selection.ts'
import { statsText, statusOf, statusParts, statusText } from './status.ts'

export interface ControlParts {
  readonly sources: OperationsSources
  readonly store: Pick<
    Store,
    'list' | 'get' | 'amend' | 'remove' | 'removeContents' | 'unremovable'
  >
  readonly negative: NegativeMemory
  readonly suites: Pick<Suites, 'removed'>
  readonly updates: Pick<Updates, 'askAgain'>
  readonly rules: () => Rules
  readonly retention: RetentionCommandParts
  /** The answers of the features, by the `do` of the request. */
  readonly features: ReadonlyMap<string, CommandAnswering>
  readonly reload: Reload
  /** The warnings of the last reload, and the settings that wait for a restart. */
  readonly remarks: () => readonly string[]
}

/** The handler of requests. It throws an error when it does not know the command, which prints the message. */
export function control(parts: ControlParts): RequestHandler {
  return async request => {
    const asked = isRecord(request) ? request : {}
    const { do: act, json, of } = asked
    const { sources } = parts
    const ofFeature = parts.features.get(String(act))
    if (ofFeature !== undefined) return ofFeature(asked)
    switch (act) {
      case 'status': {
        const found = await statusOf(sources)
        const code = found.state === 'broken' ? exitCodes.failure : exitCodes.success
        const parts = statusParts(sources)
        const members = Object.assign({}, ...parts.map(part => part.members))
        const text = json === true ? jsonText({ ...found, ...members }) : statusText(found, parts)
        return outputAnswer(text, code)
      }
      case 'stats': {
        const found = sources.statistics()
        const today = calendarDate(sources.clock.now())
        return outputAnswer(json === true ? jsonText(found) : statsText(found, today))
      }
      case 'explain': {
        const { text, understood } = explanationText(await sources.explain(explainedRequest(asked)))
        return outputAnswer(text, understood ? exitCodes.success : exitCodes.usage)
      }
      case 'remove':
      case 'refresh':
        return changed(act, String(of), parts)
      case 'retention':
        return retentionAnswer(parts.retention, json === true)
      case 'reload':
        return reloadAnswer(parts.reload, parts.remarks)
      default:
        throw new Error('this process does not know how to do that')
    }
  }
}

/** Removes files, or marks them for a validation, and answers how many. The answer is a failure when no file is meant. */
async function changed(
  act: 'remove' | 'refresh',
  text: string,
  { rules, store, negative, suites, updates }: ControlParts,
): Promise<CommandAnswer> {
  const chosen = selectionOf(text, rules())
  const proposed = async () => {
    const found = await proposal(store, text, act)
    return found === undefined ? [] : [found]
  }
  if (typeof chosen === 'string')
    return complaintAnswer(exitCodes.usage, chosen, ...(await proposed()))
  negative.clear()
  if (act === 'refresh') updates.askAgain()
  const { files, bytes, left } =
    act === 'refresh'
      ? { ...(await refresh(store, chosen)), left: { contents: 0, bytes: 0 } }
      : await remove(store, chosen, keys => suites.removed(keys))
  if (files === 0) {
    const none = `no stored file is meant by ${text}`
    const stay = store.unremovable
    const stays = stay.contents === 0 ? [] : [unremovableText(stay, rules().config.cacheDirectory)]
    return complaintAnswer(exitCodes.failure, none, ...(await proposed()), ...stays)
  }
  const did = act === 'remove' ? 'removed' : 'will ask the origin at the next request for'
  if (left.contents === 0) return outputAnswer(`${did} ${countOf(files, 'file')}, ${size(bytes)}\n`)
  const gone = Math.max(0, files - left.contents)
  return {
    out: `${did} ${countOf(gone, 'file')}, ${size(Math.max(0, bytes - left.bytes))}\n`,
    complaints: [unremovableText(left, rules().config.cacheDirectory)],
    code: exitCodes.failure,
  }
}
