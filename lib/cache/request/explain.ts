/**
 * What would become of a request for a URL now, and why: the steps of the pipeline, told instead of taken. Asks nobody but
 * the store.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { formatDuration } from '../../config/units.ts'
import { requestDirectives } from '../../http/message/cache-control.ts'
import { Fields } from '../../http/message/field.ts'
import {
  formatAuthority,
  formatUri,
  parseTarget,
  type TargetUri,
} from '../../http/message/target.ts'
import { classify } from '../archive/path.ts'
import type { Explanation } from '../operations/sources.ts'
import { admitTarget } from '../policy/policy.ts'
import { route } from '../policy/route.ts'
import type { Rules } from '../policy/rules.ts'
import { currentAge } from '../rfc9111/freshness.ts'
import { type Decision, lookup } from '../rfc9111/lookup.ts'
import type { NegativeMemory } from '../rfc9111/negative.ts'
import type { Entry } from '../store/entry.ts'
import { canonicalUri, entryName } from '../store/key.ts'
import { effectiveTarget } from './client-mode.ts'

export interface ExplainParts {
  readonly rules: Rules
  readonly store: { get(key: string): Entry | undefined | Promise<Entry | undefined> }
  readonly negative?: NegativeMemory
  readonly now: Milliseconds
}

/** What apt says with every request for an index. */
const asAptUpdate = Fields.of(['Cache-Control', 'max-age=0'])

/** The findings in the order of the pipeline. It ends where a request would end. */
export async function explain(url: string, parts: ExplainParts): Promise<readonly Explanation[]> {
  const findings: Explanation[] = []
  const find = (question: string, answer: string): void => {
    findings.push({ question, answer })
  }
  const asked = askedFor(url, parts.rules)
  if (typeof asked === 'string') {
    find('Asked for', asked)
    return findings
  }
  const spelt = canonicalUri(asked)
  if (spelt === undefined) {
    find('Refused', 'the path has control characters or climbs above its root')
    return findings
  }
  const routed = route(spelt, parts.rules.routes)
  const { target } = routed
  const { rule: router, shown } = routed
  if (router !== undefined) {
    find('Routed by', shown === undefined ? router : `${router}, from ${shown.from} to ${shown.to}`)
    find('Routed to', formatUri(target))
  }
  const admissions = [spelt, target].map(uri =>
    admitTarget({ kind: 'fetch', scheme: uri.scheme, authority: uri }, parts.rules.policy),
  )
  for (const one of admissions) {
    if (!('deny' in one)) continue
    find('Refused by', one.deny)
    find('Because', one.sentence)
    return findings
  }
  const [first, admission] = admissions.filter(one => 'allow' in one)
  if (first === undefined || admission === undefined) throw new Error('two targets, two admissions')
  const rule = admission.rule === '*' ? 'no host is listed, so every public host' : admission.rule
  find(
    'Admitted by',
    `${rule} (${admission.trusted ? 'at any address' : 'at public addresses only'})`,
  )
  find('Origin', formatAuthority(target, target.scheme))

  const key = formatUri(target)
  const archive = classify(target.path)
  const stored = await parts.store.get(key)
  find('Key', key)
  find('Entry', entryName(key))
  find('Kind', archive.immutable ? `${archive.kind}, never changes` : archive.kind)
  if (stored === undefined) find('Stored', 'no')
  else {
    find('Stored', `${new Date(stored.stored).toISOString()}, ${stored.size} bytes`)
    find('SHA-256', stored.digest)
    find('Last-Modified', stored.lastModified)
    find('Validated', new Date(stored.validated).toISOString())
    find('Age', formatDuration(currentAge(stored, parts.now) * 1000))
  }
  const question = {
    stored,
    negativeUntil: parts.negative?.until(key),
    path: archive,
    authorization: target.userinfo !== undefined,
    passthrough: first.allow === 'passthrough' || admission.allow === 'passthrough',
    settings: parts.rules.config.freshness,
    now: parts.now,
  }
  const plain = lookup({ ...question, directives: requestDirectives(Fields.empty) })
  find('A request now', sentenceFor(plain))
  if (archive.kind === 'pool' || archive.kind === 'other') return findings
  const insisting = lookup({ ...question, directives: requestDirectives(asAptUpdate) })
  if (insisting.use !== plain.use) find('apt update now', sentenceFor(insisting))
  return findings
}

function askedFor(url: string, rules: Rules): TargetUri | string {
  const target = parseTarget('GET', url.includes('://') ? url : `http://${url}`)
  if ('problem' in target) return target.problem
  if (target.form !== 'absolute') return 'not an http or https URL'
  const effective = effectiveTarget(
    {
      method: 'GET',
      target,
      fields: Fields.empty,
      secure: false,
      local: { address: '127.0.0.1', port: 0 },
    },
    rules.policy.own,
  )
  switch (effective.kind) {
    case 'fetch':
      return effective.uri
    case 'operations':
      return 'a page of this proxy'
    case 'refuse':
      return effective.sentence
    case 'connect':
      return 'a tunnel'
  }
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
