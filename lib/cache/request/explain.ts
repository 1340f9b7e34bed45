/**
 * Explains what would become of a request for a URL now, and why. It takes the steps of the pipeline up to the decision, puts
 * each into words, and asks the store but no origin.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { formatDuration } from '../../config/units.ts'
import { requestDirectives } from '../../http/message/cache-control.ts'
import { Fields } from '../../http/message/field.ts'
import { parseTarget } from '../../http/message/target.ts'
import type { Explanation } from '../operations/sources.ts'
import type { Admitted } from '../policy/policy.ts'
import type { Rules } from '../policy/rules.ts'
import { currentAge } from '../rfc9111/freshness.ts'
import { type Decision, lookup } from '../rfc9111/lookup.ts'
import type { NegativeMemory } from '../rfc9111/negative.ts'
import type { Entry } from '../store/entry.ts'
import { entryName } from '../store/key.ts'
import { type Destination, Destinations, type FileDestination } from './destination.ts'

export interface ExplainParts {
  readonly rules: Rules
  readonly store: { get(key: string): Promise<Entry | undefined> }
  readonly negative?: NegativeMemory
  readonly now: Milliseconds
}

/** The findings in the order of the pipeline. They end where a request would end. */
export async function explain(url: string, parts: ExplainParts): Promise<readonly Explanation[]> {
  const destination = destinationOf(url, parts.rules)
  if (typeof destination === 'string') return [finding('Asked for', destination)]
  if (destination.kind !== 'file') return [whatElse(destination)]
  const { admission, key } = destination
  const found = routing(destination)
  if ('deny' in admission) {
    return [...found, finding('Refused by', admission.deny), finding('Because', admission.sentence)]
  }
  const entry = await parts.store.get(key)
  return [
    ...found,
    ...target(destination, admission),
    ...(entry === undefined ? [finding('Stored', 'no')] : stored(entry, parts.now)),
    ...decisions(destination, admission, { ...parts, entry }),
  ]
}

function finding(question: string, answer: string): Explanation {
  return { question, answer }
}

/** The destination of a GET through the proxy; a sentence when the text is no URL of ours to fetch. */
function destinationOf(url: string, rules: Rules): Destination | string {
  const target = parseTarget('GET', url.includes('://') ? url : `http://${url}`)
  if ('problem' in target) return target.problem
  if (target.form !== 'absolute') return 'not an http or https URL'
  const local = { address: '127.0.0.1', port: 0 }
  return new Destinations(rules).of({
    method: 'GET',
    target,
    fields: Fields.empty,
    secure: false,
    local,
  })
}

function whatElse(destination: Exclude<Destination, FileDestination>): Explanation {
  if (destination.kind === 'unkeyable') {
    return finding('Refused', 'the path has control characters or climbs above its root')
  }
  if (destination.kind === 'refuse') return finding('Asked for', destination.sentence)
  const page = destination.kind === 'operations'
  return finding('Asked for', page ? 'a page of this proxy' : 'a tunnel')
}

function routing({ rule, key }: FileDestination): readonly Explanation[] {
  if (rule === undefined) return []
  const { name, from, to } = rule
  return [finding('Routed by', `${name}, from ${from} to ${to}`), finding('Routed to', key)]
}

function target({ about, key, archive }: FileDestination, by: Admitted): readonly Explanation[] {
  const rule = by.rule === '*' ? 'no host is listed, so every public host' : by.rule
  const where = by.trusted ? 'at any address' : 'at public addresses only'
  return [
    finding('Admitted by', `${rule} (${where})`),
    finding('Origin', about.origin),
    finding('Key', key),
    finding('Entry', entryName(key)),
    finding('Kind', archive.immutable ? `${archive.kind}, never changes` : archive.kind),
  ]
}

function stored(entry: Entry, now: Milliseconds): readonly Explanation[] {
  return [
    finding('Stored', `${new Date(entry.stored).toISOString()}, ${entry.size} bytes`),
    finding('SHA-256', entry.digest),
    finding('Last-Modified', entry.lastModified),
    finding('Validated', new Date(entry.validated).toISOString()),
    finding('Age', formatDuration(currentAge(entry, now) * 1000)),
  ]
}

/** What a plain request gets and, for files that can change, what `apt update` gets when that differs. */
function decisions(
  { key, archive, asked, credentials }: FileDestination,
  admission: Admitted,
  { rules, negative, now, entry }: ExplainParts & { readonly entry: Entry | undefined },
): readonly Explanation[] {
  const decide = (request: Fields): Decision =>
    lookup({
      stored: entry,
      negativeUntil: negative?.until(key),
      path: archive,
      directives: requestDirectives(request),
      authorization: asked.userinfo !== undefined && credentials,
      passthrough: admission.allow === 'passthrough',
      settings: rules.config.freshness,
      now,
    })
  const plain = decide(Fields.empty)
  const found = [finding('A request now', sentenceFor(plain))]
  if (archive.kind === 'pool' || archive.kind === 'other') return found
  // apt sends this with every request for an index.
  const update = decide(Fields.of(['Cache-Control', 'max-age=0']))
  if (update.use !== plain.use) found.push(finding('apt update now', sentenceFor(update)))
  return found
}

function sentenceFor(decision: Decision): string {
  switch (decision.use) {
    case 'store':
      return `is answered from the store (${decision.because})`
    case 'revalidate':
      return `is answered once the origin has been asked whether the copy still holds (${decision.because})`
    case 'negative':
      return 'is answered 404: the origin said so a moment ago'
    case 'fail':
      return 'is answered 504'
    case 'origin':
      return decision.because === 'absent'
        ? 'is fetched from the origin, streamed and stored (absent)'
        : `is passed through without being stored (${decision.because})`
  }
}
