/**
 * Explains how a request for a URL would be answered now, and why. It takes the steps of the pipeline that depend on the URL, up to
 * the decision, and puts each into words. It leaves out the client and the method. It reads the store but asks no origin.
 */

import type { Milliseconds } from '../../async/clock.ts'
import { formatDuration } from '../../config/units.ts'
import { moment, size } from '../../figures.ts'
import type { ParentState } from '../../http/client/dialling/parents.ts'
import { requestDirectives } from '../../http/message/cache-control.ts'
import { parseDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import { type Authority, formatAuthority, type TargetUri } from '../../http/message/target.ts'
import { addressRefusal, signatureIsOfAnother } from '../answer/errors.ts'
import { directoriesOf } from '../archive/path.ts'
import { recordedUrl } from '../features/builds/build.ts'
import type { Builds } from '../features/builds/builds.ts'
import type { SuiteDelays } from '../features/delay/suite-delays.ts'
import type { SharedState } from '../features/shared/shared-store.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { NotStoredReason } from '../fetch/found.ts'
import type { Mirrors } from '../fetch/origin-question.ts'
import type { OriginRemark } from '../fetch/origin-remarks.ts'
import { admitTarget, type Rules, tunnelMode } from '../policy/policy.ts'
import { parentsOf, placesOf } from '../policy/routing.ts'
import {
  destinationOfUrl,
  destinationUnderKey,
  type FileDestination,
} from '../request/destination.ts'
import { isOfNoArchive } from '../rfc9111/client-fields.ts'
import { currentAge, type Decision, lookup, type NegativeMemory } from '../rfc9111/lookup.ts'
import { type EntryProof, neverConfirmed, type Reading } from '../store/entry.ts'
import { type Signature, signerText } from '../suites/generation.ts'
import type { Suites } from '../suites/suites.ts'
import type { Updates } from '../suites/updates/updates.ts'
import type { Explanation, RequestFate } from './sources.ts'
import { delayText, sharedText, troubleText } from './state-text.ts'

interface ExplainParts {
  readonly rules: Rules
  readonly store: {
    read(key: string): Reading | Promise<Reading>
    /** Whether the store has a content under any name. A process that does not own the store cannot tell. */
    has?(digest: string): boolean
  }
  /** Whether a stored content may answer for a name other than the one it was stored under. */
  readonly shares?: (digest: string, key: string) => boolean
  readonly negative?: NegativeMemory
  readonly updates?: Pick<Updates, 'refusal' | 'withholdsSignature'>
  readonly delays?: Pick<SuiteDelays, 'state'>
  readonly fetcher?: Pick<Fetcher, 'notStored' | 'trouble'>
  readonly suites?: Pick<Suites, 'look' | 'checkFrom' | 'confirms' | 'past' | 'all'>
  readonly builds?: Pick<Builds, 'foresee'>
  /** The state of the parent proxies; undefined in a process that does not own the store. */
  readonly parents?: () => readonly ParentState[]
  /** What is special about asking some origins now; undefined in a process that does not own the store. */
  readonly origins?: () => readonly OriginRemark[]
  /** The last known addresses of a name if none of them is public; else none. */
  readonly refusedAddresses?: (authority: Authority) => readonly string[]
  readonly mirrors?: Pick<Mirrors, 'refusedRedirect'>
  /** The state of the store that several nodes share; undefined without one. */
  readonly shared?: SharedState | undefined
  /** Whether the nodes share a file. */
  readonly isShared?: (uri: TargetUri) => boolean
  readonly now: Milliseconds
}

/** The findings as a command prints them, one per line, and whether the URL was understood. */
export function explanationText(findings: readonly Explanation[]): {
  readonly text: string
  readonly understood: boolean
} {
  const width = Math.max(...findings.map(({ question }) => question.length))
  const lines = findings.map(({ question, answer }) => `${question.padEnd(width)}  ${answer}\n`)
  return { text: lines.join(''), understood: findings[0]?.question !== notUnderstood }
}

const notUnderstood = 'Asked for'
const tooLarge =
  'it is larger than 5 GiB, which is the most that one request to the shared store takes: each node fetches it'
const notShared =
  'not asked: files of an archive with `clients` or `credentials`, and targets with a query, are not shared'

const byClient =
  'a request with Cookie, or with an Accept other than */*, is passed through with its own fields and not stored; so is one by another program than apt when the answer is a page (HTML, JSON, XML), or has a Vary that names a field of the request (own-fields)'

type Verdict = Pick<Explanation, 'answer' | 'fate'>

const fates: Readonly<Record<Decision['use'], RequestFate>> = {
  store: 'hit',
  revalidate: 'asks',
  replace: 'miss',
  origin: 'miss',
  negative: 'failed',
  fail: 'failed',
}

/**
 * The answer to a single word in place of a URL; undefined for other text. A word is no target: only hosts of the local machine
 * have such names, and a file has a path as well.
 */
function wordSentence(text: string): string | undefined {
  if (!/^[\w+-]+$/.test(text)) return undefined
  return `${JSON.stringify(text)}, which is a word and no target. A target is what apt asks for, such as http://archive.example.org/debian/pool/main/h/hello/hello_2.10_amd64.deb, with or without http://. Stored files that have the word in their targets: cachesvc list ${text}`
}

/** A sentence about the parent proxies by which a host is asked, and about those that fail now. */
function wayText(names: readonly string[], { rules, parents }: ExplainParts): string {
  const [first, ...others] = names
  if (first === undefined) {
    return 'no parent proxy: `parent_proxy.except` names the host, or `only` does not'
  }
  const { direct } = rules.config.parentProxy ?? { direct: false }
  const next = [...others.map(name => `by way of ${name}`), ...(direct ? ['directly'] : [])]
  const then = next.map(way => `; when that fails, ${way}`).join('')
  const failing = (parents?.() ?? []).filter(({ name }) => names.includes(name))
  const now = failing.flatMap(({ name, because }) =>
    because === undefined ? [] : [`. ${name} fails now: ${because}`],
  )
  return `the parent proxy ${first}${then}${now.join('')}`
}

/** The findings: first the answer to a request, then the reasons in the order of the pipeline. */
export async function explain(url: string, parts: ExplainParts): Promise<readonly Explanation[]> {
  const findings: Explanation[] = []
  const find = (question: string, answer: string): void => {
    findings.push({ question, answer })
  }
  const word = wordSentence(url)
  if (word !== undefined) return [{ question: notUnderstood, answer: word, fate: 'refused' }]
  const escaped = await storedEscaped(url, parts)
  if (escaped !== undefined) find('Read as', `${escaped}: apt escapes the % of a Filename`)
  const wanted = destinationOfUrl(escaped ?? url, parts.rules)
  if (typeof wanted === 'string') {
    return [{ question: notUnderstood, answer: wanted, fate: 'refused' }]
  }
  const destination = await asOfItsDay(wanted, parts)
  if ('answer' in destination) return [{ question: 'A request now', ...destination }]
  const told = (verdict: Verdict, more: readonly Explanation[] = []): readonly Explanation[] => {
    const unread = unreadTunnel(url, destination, parts.rules)
    const answered = { question: 'A request now', ...(unread ?? verdict) }
    const within = [{ question: 'As http://HTTPS///', answer: verdict.answer }]
    return [answered, ...(unread === undefined ? [] : within), ...more, ...findings]
  }
  const { rule, key, admission, about, archive, asked, credentials } = destination
  if (rule !== undefined) {
    find('Routed by', `${rule.name}, from ${rule.from} to ${rule.to}`)
    find('Routed to', key)
  }
  if ('deny' in admission) {
    find('Refused by', admission.deny)
    return told({ answer: `is refused. ${admission.sentence}`, fate: 'refused' })
  }
  const pattern =
    admission.rule === '*' ? 'no host is listed, so every public host' : admission.rule
  const where = admission.trusted ? 'at any address' : 'at public addresses only'
  find('Admitted by', `${pattern} (${where})`)
  find('Origin', about.origin)
  const trouble = parts.fetcher?.trouble(destination.uri)
  if (trouble !== undefined) find('Fails now', troubleText(trouble))
  const origin = formatAuthority(destination.uri)
  for (const remark of parts.origins?.() ?? []) {
    if (remark.origin === origin) find('Origin now', remark.text)
  }
  const { confinement } = destination
  if (confinement !== undefined) {
    const { setting, credentials: own } = confinement
    find('Clients', `only those of ${setting}; others are refused`)
    if (own !== undefined) find('Asked with', `the credentials of this proxy (${own})`)
  }
  if (parts.rules.config.parentProxy !== undefined) {
    find('By way of', wayText(parentsOf(destination.uri, parts.rules.policy.parents), parts))
  }
  const [, ...others] = placesOf(destination.uri, parts.rules.config.archives)
  if (others.length > 0) {
    find('When it fails', others.map(uri => formatAuthority(uri, uri.scheme)).join(', '))
  }
  if (parts.shared !== undefined) {
    const isShared = parts.isShared?.(destination.uri) === true
    find('Shared store', isShared ? sharedText(parts.shared) : notShared)
  }
  if (destination.build !== undefined) {
    const verdict = inBuildVerdict(destination.build, recordedUrl(asked), parts.builds)
    if (verdict !== undefined) return told(verdict)
    find('Build', `${destination.build}, which records the answer`)
  }
  find('Key', key)
  find('Kind', archive.immutable ? `${archive.kind}, never changes` : archive.kind)
  if (admission.allow !== 'passthrough' && isOfNoArchive(archive)) find('By client', byClient)
  const reading = await parts.store.read(key)
  const stored = reading === 'unreadable' ? undefined : reading
  if (reading === 'unreadable') find('Stored', 'not known: the disk cannot read the entry')
  else if (stored === undefined) find('Stored', 'no')
  else {
    find('Stored', `${size(stored.size)}, ${moment(stored.stored)}`)
    find('SHA-256', stored.digest)
    const modified = parseDate(stored.lastModified, parts.now)
    find('Last-Modified', modified === undefined ? stored.lastModified : moment(modified))
    if (stored.validated === neverConfirmed) find('Validated', 'not since cachesvc refresh')
    else {
      find('Validated', moment(stored.validated))
      find('Age', formatDuration(currentAge(stored, parts.now) * 1000))
    }
    if (stored.verified !== undefined) find('Verified by', verifiedText(stored.verified, parts))
  }
  for (const at of archive.kind === 'pool' ? [] : directoriesOf(key)) {
    const refusal = parts.updates?.refusal(at)
    if (refusal !== undefined) find('Kept', refusal)
    const delay = parts.delays?.state(at)
    if (delay !== undefined) find('Delayed', delayText(delay))
  }
  const passthrough = admission.allow === 'passthrough'
  const authorization = asked.userinfo !== undefined && credentials
  const claim =
    passthrough || authorization
      ? undefined
      : await parts.suites?.look({ key, archive, client: unknownClient, stored })
  if (claim !== undefined) {
    const { release, signature, adopted } = claim.generation
    find('Named by', `${claim.suite}/${release.name}, ${signatureText(signature)}`)
    find('Adopted', moment(adopted))
    const { contradicting, others } = claim
    if (contradicting !== undefined) find('Contradiction', contradictionText(contradicting))
    if (others !== undefined && claim.digest !== stored?.digest) {
      const digests = [claim, ...others].map(({ digest }) => digest)
      find('Must be', `one of the contents with the digests ${digests.join(', ')}`)
    } else if (claim.digest !== stored?.digest) {
      const digest =
        claim.by === undefined ? `the SHA-256 ${claim.digest}` : `a SHA-512 of ${claim.digest}…`
      find('Must be', `${claim.size} bytes with ${digest}`)
      if (isElsewhere(claim.digest, destination, parts)) {
        return told({
          answer: 'is answered from the store, which has this content under another name',
          fate: 'hit',
        })
      }
    }
  }
  const bytes = claim?.size ?? stored?.size ?? 0
  if (parts.isShared?.(destination.uri) === true && bytes > (parts.shared?.largest ?? bytes)) {
    find('Not shared', tooLarge)
  }
  if (claim === undefined && parts.updates?.withholdsSignature(unknownClient, key)) {
    return told({ answer: `is answered 404. ${signatureIsOfAnother}`, fate: 'failed' })
  }
  const decision = (request: Fields): Decision => {
    const directives = requestDirectives(request)
    const { negative, suites, rules, now } = parts
    const file = { key, archive, claim, directives, authorization, passthrough }
    return lookup({ ...file, stored: reading, now, negative, suites, config: rules.config })
  }
  const plain = decision(Fields.empty)
  const last = parts.fetcher?.notStored(key)
  if (stored === undefined && last !== undefined && plain.use === 'origin') {
    return told({ answer: notStoredSentences[last] ?? notKept(last), fate: 'miss' })
  }
  const refusal = refusalNow(destination, admission.trusted, parts)
  if (refusal !== undefined && fates[plain.use] === 'miss') {
    return told({ answer: `is refused. ${refusal}`, fate: 'refused' })
  }
  const verdict = { answer: sentenceFor(plain), fate: fates[plain.use] }
  if (archive.kind === 'pool' || archive.kind === 'other') return told(verdict)
  // apt sends this with every request for an index.
  const update = decision(Fields.of(['Cache-Control', 'max-age=0']))
  if (update.use === plain.use) return told(verdict)
  return told(verdict, [{ question: 'apt update now', answer: sentenceFor(update) }])
}

/** What it means for a file that these indexes contradict each other about it. */
function contradictionText(indexes: readonly string[]): string {
  return `${indexes.join(' and ')} name different contents for it, which is an error of the archive. A client gets what the index names that it has fetched; where that is not known, any of these contents that the origin has`
}

/**
 * The reason for which a fetch would be refused after the look-up of the name, or after a redirect, as far as that is known from earlier
 * requests.
 */
function refusalNow(
  { uri }: FileDestination,
  trusted: boolean,
  { rules, refusedAddresses, mirrors }: ExplainParts,
): string | undefined {
  const redirect = mirrors?.refusedRedirect(uri)
  if (redirect !== undefined) return `The last answer of the origin: ${redirect}`
  if (trusted || parentsOf(uri, rules.policy.parents).length > 0) return undefined
  const addresses = refusedAddresses?.(uri) ?? []
  if (addresses.length === 0) return undefined
  return addressRefusal(formatAuthority(uri), addresses.join(', ')).sentence
}

/** Whether the store has a content under another name, and may give it under this one. */
function isElsewhere(
  digest: string,
  { key }: FileDestination,
  { store, shares }: ExplainParts,
): boolean {
  return store.has?.(digest) === true && shares?.(digest, key) !== false
}

/**
 * The URL by which apt asks for a file whose name has an escape, such as the colon of an epoch (`%3a`). Undefined unless that URL is
 * stored and the URL as written is not. Indexes have such names in `Filename`, and people copy them from there.
 */
async function storedEscaped(
  url: string,
  { rules, store }: ExplainParts,
): Promise<string | undefined> {
  if (!/%3a/i.test(url)) return undefined
  const escaped = url.replace(/%3a/gi, found => `%25${found.slice(1)}`)
  for (const [one, is] of [
    [url, false],
    [escaped, true],
  ] as const) {
    const destination = destinationOfUrl(one, rules)
    if (typeof destination === 'string') return undefined
    if (((await store.read(destination.key)) !== undefined) !== is) return undefined
  }
  return escaped
}

/** The file that a target of a snapshot stands for, or the answer to a request when there is no such file. */
async function asOfItsDay(
  destination: FileDestination,
  { suites }: ExplainParts,
): Promise<FileDestination | Verdict> {
  const { asOf, admission, key, archive } = destination
  if (asOf === undefined || 'deny' in admission) return destination
  if (suites === undefined) {
    return { answer: 'is answered as of a day, which the running proxy alone can tell' }
  }
  const found = await suites.past(key, archive, asOf)
  return 'sentence' in found
    ? { answer: `is answered 404. ${found.sentence}`, fate: 'failed' }
    : destinationUnderKey(destination, found.key)
}

/**
 * The verdict on an `https://` URL, for which apt asks for a tunnel to the host. Undefined for other URLs and for tunnels that are
 * intercepted.
 */
function unreadTunnel(
  url: string,
  { asked }: FileDestination,
  { policy }: Rules,
): Verdict | undefined {
  if (!/^https:/i.test(url)) return undefined
  const authority = { host: asked.host, port: asked.port }
  const admission = admitTarget({ kind: 'connect', authority }, policy)
  if ('deny' in admission) {
    return { answer: `is refused. ${admission.sentence}`, fate: 'refused' }
  }
  const { mode } = tunnelMode(authority, policy)
  if (mode === 'intercept') return undefined
  if (mode === 'refuse') {
    return { answer: 'is refused by `https.refuse_domains`', fate: 'refused' }
  }
  const stored = `http://HTTPS///${formatAuthority(asked, 'https')}${asked.path}`
  return {
    answer: `apt would tunnel it: the proxy carries it unread and stores nothing. Write ${stored} to have it stored`,
    fate: 'tunnel',
  }
}

/** The verdict on a request within a build; undefined when the request is answered like any other and recorded. */
function inBuildVerdict(
  name: string,
  url: string,
  builds: ExplainParts['builds'],
): Verdict | undefined {
  if (builds === undefined) {
    return {
      answer: `is answered within the build ${name}, which the running proxy alone can tell`,
    }
  }
  const decision = builds.foresee(name, url)
  switch (decision.use) {
    case 'file': {
      const { size: bytes, digest } = decision.file
      const answer = `is answered with what the build ${name} has recorded: ${size(bytes)}, SHA-256 ${digest} (recorded)`
      return { answer, fate: 'hit' }
    }
    case 'status':
      return { answer: `is answered ${decision.given.status}, as it was recorded`, fate: 'failed' }
    case 'refuse':
      return {
        answer: `is answered 409. ${decision.sentence} (${decision.because})`,
        fate: 'failed',
      }
    case 'record':
      return undefined
  }
}

const unknownClient = { address: '', port: 0 }

function sentenceFor(decision: Decision): string {
  switch (decision.use) {
    case 'store':
      return `is answered from the store (${decision.because})`
    case 'revalidate':
      return `is answered once the origin has been asked whether the copy still holds (${decision.because})`
    case 'replace':
      return 'is fetched in place of the stored copy, which is not what the archive names (superseded)'
    case 'negative':
      return 'is answered 404: the origin said so a moment ago'
    case 'fail':
      return `is answered 504 (${decision.because})`
    case 'origin':
      return decision.because === 'absent' || decision.because === 'unreadable'
        ? `is fetched from the origin, streamed and stored (${decision.because})`
        : `is passed through without being stored (${decision.because})`
  }
}

const forbidden = (because: string): string =>
  `is fetched from the origin and streamed, and not stored: the last response had ${because}. \`store: always\` under \`archives\` stores it all the same, if the owner of the archive agrees`

const notTheFile = (found: string): string =>
  `is fetched from the origin and streamed, and not stored: the last response was ${found}`

const notKept = (because: string): string =>
  `is fetched from the origin and streamed; the last response could not be stored: ${because}`

/** The answers for a file whose last response was not stored, by the reason for which it was not. */
const notStoredSentences: Readonly<Record<string, string>> = {
  private: forbidden('`Cache-Control: private`'),
  'no-store': forbidden('`Cache-Control: no-store`'),
  vary: forbidden('`Vary: *`'),
  partial: notTheFile('a part of the file, with `Content-Range`'),
  page: notTheFile('a page and not the file'),
  empty: notTheFile('empty'),
  format: notTheFile('of another format than its name says'),
} satisfies Record<NotStoredReason, string>

function verifiedText(
  { by, suite, signer }: EntryProof,
  { suites }: Pick<ExplainParts, 'suites'>,
): string {
  if (by === 'name') return 'its name'
  if (signer === undefined) return `an index of ${suite}, without a good signature`
  const known = suites?.all
    .flatMap(({ generations }) => generations)
    .find(({ signature }) => signature.by === signer)
  return `an index of ${suite}, signed by ${signerText(known?.signature ?? { by: signer })}`
}

function signatureText(signature: Signature): string {
  return signature.is === 'good'
    ? `signed by ${signerText(signature)}`
    : signatureTexts[signature.is]
}

const signatureTexts = {
  'unknown-key': 'signed by unknown keys',
  bad: 'wrongly signed',
  unsigned: 'not signed',
  unchecked: 'its signature was not checked: there is no keyring',
} as const
