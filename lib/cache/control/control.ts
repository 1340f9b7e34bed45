/**
 * Answers the commands that ask a running service over its admin socket: status, stats, explain, remove, refresh, reload,
 * and the removals of verify-repos.
 *
 * # Representation
 * A request is `{ do: 'status', json: true }` and the like. The answer is the text that the command prints and its exit code:
 * a command need not understand the figures of another version.
 */

import type { RequestHandler } from '../../admin-socket.ts'
import type { Reload } from '../../daemon.ts'
import { isRecord } from '../../json.ts'
import { type ExitCode, exitCodes } from '../../program.ts'
import { explanationText } from '../explain.ts'
import { countOf, size } from '../figures.ts'
import type { OperationsSources } from '../operations/sources.ts'
import type { Rules } from '../policy/policy.ts'
import type { NegativeMemory } from '../rfc9111/stored-response.ts'
import { calendarDate } from '../stats/statistics.ts'
import type { Store } from '../store/store.ts'
import { type Fate, readEvictRequest } from '../verify/remove-wrong.ts'
import type { Wrong } from '../verify/report.ts'
import { type Amount, chosenBy, refresh, remove } from './selection.ts'
import { statsText, statusOf, statusText } from './status.ts'

/** What a command prints and ends with. */
interface Said {
  readonly out: string
  /** For standard error, a line each. */
  readonly complaints: readonly string[]
  readonly code: ExitCode
}

export interface ControlParts {
  readonly sources: OperationsSources
  readonly store: Pick<Store, 'list' | 'get' | 'put' | 'remove'>
  readonly negative: NegativeMemory
  readonly rules: () => Rules
  /** Removes a file that verify-repos found wrong. */
  readonly evict: (wrong: Wrong) => Promise<Fate>
  readonly reload: Reload
  /** What the last reload has to say beside problems. */
  readonly remarks: () => readonly string[]
}

/** Throws what the command that asked prints as its failure. */
export function control(parts: ControlParts): RequestHandler {
  return async request => {
    const wrong = readEvictRequest(request)
    if (wrong !== undefined) return parts.evict(wrong)
    if (!isRecord(request)) throw new Error(notUnderstood)
    const { do: act, json, of } = request
    switch (act) {
      case 'status':
        return status(parts.sources, json === true)
      case 'stats':
        return stats(parts.sources, json === true)
      case 'explain':
        return explained(String(of), parts.sources)
      case 'remove':
        return removed(String(of), parts)
      case 'refresh':
        return refreshed(String(of), parts)
      case 'reload':
        return reloaded(parts)
      default:
        throw new Error(notUnderstood)
    }
  }
}

const notUnderstood = 'this process does not know how to do that'

async function status(sources: OperationsSources, json: boolean): Promise<Said> {
  const found = await statusOf(sources)
  const code = found.state === 'broken' ? exitCodes.failure : exitCodes.success
  return { out: json ? jsonText(found) : statusText(found), complaints: [], code }
}

function stats({ statistics, clock }: OperationsSources, json: boolean): Said {
  const found = statistics()
  const out = json ? jsonText(found) : statsText(found, calendarDate(clock.now()))
  return { out, complaints: [], code: exitCodes.success }
}

async function explained(url: string, sources: OperationsSources): Promise<Said> {
  const { text, understood } = explanationText(await sources.explain(url))
  const code = understood ? exitCodes.success : exitCodes.usage
  return { out: text, complaints: [], code }
}

async function removed(text: string, { rules, store }: ControlParts): Promise<Said> {
  const chosen = chosenBy(text, rules())
  if (typeof chosen === 'string') return wrongUsage(chosen)
  return amountSaid('removed', text, await remove(store, chosen))
}

async function refreshed(text: string, { rules, store, negative }: ControlParts): Promise<Said> {
  const chosen = chosenBy(text, rules())
  if (typeof chosen === 'string') return wrongUsage(chosen)
  negative.clear()
  const amount = await refresh(store, chosen)
  return amountSaid('will ask the origin at the next request for', text, amount)
}

/** How much was dealt with; a failure when it was nothing. */
function amountSaid(did: string, text: string, { files, bytes }: Amount): Said {
  return files > 0
    ? said(`${did} ${countOf(files, 'file')}, ${size(bytes)}\n`)
    : { out: '', complaints: [`no stored file is meant by ${text}`], code: exitCodes.failure }
}

async function reloaded({ reload, remarks }: ControlParts): Promise<Said> {
  const problems = await reload()
  if (problems.length > 0) {
    const complaints = [...problems, 'not reloaded: the running configuration stays in force']
    return { out: '', complaints, code: exitCodes.configuration }
  }
  return { ...said('reloaded: the new configuration is in force\n'), complaints: remarks() }
}

function said(out: string): Said {
  return { out, complaints: [], code: exitCodes.success }
}

function wrongUsage(because: string): Said {
  return { out: '', complaints: [because], code: exitCodes.usage }
}

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}
