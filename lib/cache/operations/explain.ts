/**
 * Explains how a request would be answered now, and why: it puts into words what the pipeline would decide (decide/decide.ts). It reads
 * the store but asks no origin.
 */

import type { Milliseconds } from '../../async/clock.ts'
import { formatDuration } from '../../config/units.ts'
import { moment, size } from '../../figures.ts'
import type { ParentState } from '../../http/client/dialling/parents.ts'
import { parseDate } from '../../http/message/date.ts'
import { Fields } from '../../http/message/field.ts'
import { type Authority, formatAuthority, type TargetUri } from '../../http/message/target.ts'
import { runsInCircle } from '../../http/message/via.ts'
import type { JsonObject } from '../../json.ts'
import type { AnswerStep } from '../answer/answer-step.ts'
import {
  addressRefusal,
  signatureIsOfAnother,
  tunnelOffline,
  withoutFile,
} from '../answer/errors.ts'
import { directoriesOf } from '../archive/path.ts'
import {
  type AdmittedFile,
  type Approach,
  type ApproachParts,
  approach,
  type Decision,
  type DecisionParts,
  decide,
  type FileDecision,
  fileOfItsDay,
  type RefuseFile,
} from '../decide/decide.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import type { NotStoredReason } from '../fetch/fetch-outcome.ts'
import type { Mirrors } from '../fetch/mirrors.ts'
import type { OriginRemark } from '../fetch/origin-remarks.ts'
import { admitTunnel, type ClientApproach, type Refusal, type Rules } from '../policy/policy.ts'
import { parentsOf, placesOf } from '../policy/routing.ts'
import { buildOf, destinationOfUrl, type FileDestination } from '../request/destination.ts'
import { isOfNoArchive } from '../rfc9111/client-fields.ts'
import { currentAge } from '../rfc9111/lookup.ts'
import {
  type Entry,
  type EntryProof,
  isFieldLine,
  neverConfirmed,
  type Reading,
} from '../store/entry.ts'
import { type Claim, type Signature, signerText } from '../suites/generation.ts'
import type { UnnamedReason } from '../suites/must-be.ts'
import type { Suites } from '../suites/suites.ts'
import type { GenerationChoice } from '../suites/updates/places.ts'
import type { Updates } from '../suites/updates/updates.ts'
import type {
  AnswerSource,
  ExplainedRequest,
  Explanation,
  FeatureReport,
  RequestFate,
} from './sources.ts'
import { troubleText } from './state-text.ts'

interface ExplainParts extends DecisionParts, Omit<ApproachParts, 'rules'> {
  readonly updates?: DecisionParts['updates'] & Pick<Updates, 'refusal'>
  readonly delays?: DecisionParts['delays'] & Pick<GenerationChoice, 'foreseen'>
  readonly fetcher?: DecisionParts['fetcher'] & Pick<Fetcher, 'trouble'>
  readonly suites?: DecisionParts['suites'] & Pick<Suites, 'past' | 'all'>
  /** The step for requests that name a build; undefined in a process that does not own the store. */
  readonly around?: AnswerStep | undefined
  /** Refuses single files; undefined in a process that does not own the store. */
  readonly refuse?: RefuseFile | undefined
  /** The state of the parent proxies; undefined in a process that does not own the store. */
  readonly parents?: () => readonly ParentState[]
  /** What is special about asking some origins now; undefined in a process that does not own the store. */
  readonly origins?: () => readonly OriginRemark[]
  /** The last known addresses of a name if none of them is public; else none. */
  readonly refusedAddresses?: (authority: Authority) => readonly string[]
  readonly mirrors?: Pick<Mirrors, 'refusedRedirect'>
  /** What the features say; undefined in a process that does not own the store. */
  readonly features?: readonly FeatureReport[]
  readonly now: Milliseconds
}

/** The request that a command asks about, over the admin socket as well. What is not well-formed there is left out. */
export function explainedRequest(asked: JsonObject): ExplainedRequest {
  const { of, method, fields, client } = asked
  const pairs = Array.isArray(fields) ? fields.filter(isFieldLine) : []
  return {
    url: String(of),
    method: method === 'HEAD' ? method : 'GET',
    fields: Fields.of(...pairs),
    ...(typeof client === 'string' && { client }),
  }
}

/**
 * The findings as a command prints them, one per line, and whether the URL was understood. The first is a sentence, and the others are a
 * table.
 */
export function explanationText(findings: readonly Explanation[]): {
  readonly text: string
  readonly understood: boolean
} {
  const [verdict, ...table] = findings
  const width = Math.max(...table.map(({ question }) => question.length))
  const lines = table.map(({ question, answer }) => `${question.padEnd(width)}  ${answer}\n`)
  const sentence = verdict === undefined ? '' : `${verdict.question} ${verdict.answer}\n`
  return { text: sentence + lines.join(''), understood: verdict?.question !== notUnderstood }
}

/** What the features say of a file. */
function findingsOf(
  uri: TargetUri,
  bytes: number | undefined,
  { features = [] }: Pick<ExplainParts, 'features'>,
): readonly Explanation[] {
  return features.flatMap(({ findings }) => findings?.({ uri, bytes }) ?? [])
}

const notUnderstood = 'Asked for'

const byClient =
  'a request with Cookie, or with an Accept other than */*, is passed through with its own fields and not stored; so is one by another program than apt when the answer is a page (HTML, JSON, XML), or has a Vary that names a field of the request (own-fields)'

type Verdict = Omit<Explanation, 'question'>

const fates: Readonly<Record<Decision['use'], RequestFate>> = {
  store: 'hit',
  revalidate: 'asks',
  fetch: 'miss',
  pass: 'miss',
  negative: 'failed',
  fail: 'failed',
  withhold: 'failed',
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
  const { direct } = rules().config.parentProxy ?? { direct: false }
  const next = [...others.map(name => `through ${name}`), ...(direct ? ['directly'] : [])]
  const then = next.map(way => `; when that fails, ${way}`).join('')
  const failing = (parents?.() ?? []).filter(({ name }) => names.includes(name))
  const now = failing.flatMap(({ name, because }) =>
    because === undefined ? [] : [`. ${name} fails now: ${because}`],
  )
  return `the parent proxy ${first}${then}${now.join('')}`
}

/** The findings: first the answer to a request, then the reasons in the order of the pipeline. */
export async function explain(
  { url, method = 'GET', fields = Fields.empty, client }: ExplainedRequest,
  parts: ExplainParts,
): Promise<readonly Explanation[]> {
  const word = wordSentence(url)
  if (word !== undefined) return [{ question: notUnderstood, answer: word, fate: 'refused' }]
  const rules = parts.rules()
  const escaped = await storedEscaped(url, parts)
  const wanted = destinationOfUrl(escaped ?? url, rules, { method, fields })
  if (typeof wanted === 'string') {
    return [{ question: notUnderstood, answer: wanted, fate: 'refused' }]
  }
  const findings: Explanation[] = []
  const find: Find = (question, answer) => void findings.push({ question, answer })
  if (escaped !== undefined) find('Read as', `${escaped}: apt escapes the % of a Filename`)
  const address = client === undefined ? undefined : { address: client, port: 0 }
  const request = { method, fields, client: address, received: parts.now }
  const { verdict, update } = await explained(approach(request, wanted, parts), {
    wanted,
    parts,
    find,
  })
  const inCircle = runsInCircle(fields, parts.pseudonym ?? '')
  const asking = client === undefined ? undefined : { client, inCircle }
  const unread = unreadTunnel(url, { wanted, asking }, rules)
  return [
    { question: 'A request now', ...(unread ?? verdict) },
    ...(unread === undefined ? [] : [{ question: 'As http://HTTPS///', answer: verdict.answer }]),
    ...(update === undefined ? [] : [{ question: 'apt update now', answer: update.answer }]),
    ...findings,
  ]
}

type Find = (question: string, answer: string) => void

interface Explained {
  readonly wanted: FileDestination
  readonly parts: ExplainParts
  readonly find: Find
}

/** The answer to a request, and to one of `apt update` where that gets another one. */
async function explained(
  first: Approach,
  { wanted, parts, find }: Explained,
): Promise<{ readonly verdict: Verdict; readonly update?: Verdict | undefined }> {
  findRoute(wanted, find)
  const denied = (refusal: Refusal) => {
    find('Refused by', refusal.deny)
    return { verdict: refused(refusal) }
  }
  if (first.kind === 'denied') return denied(first.refusal)
  if (first.kind !== 'admitted') {
    return {
      verdict: { answer: 'is not a request for a file', fate: 'refused', because: first.kind },
    }
  }
  const file = await fileOfItsDay(wanted, parts.suites)
  if ('sentence' in file) {
    const answer = `is answered 404. ${file.sentence}`
    return { verdict: { answer, fate: 'failed', because: 'no-snapshot' } }
  }
  const admitted = { ...first, file }
  const refusal = await parts.refuse?.(file)
  if (refusal !== undefined) return denied(refusal)
  findOrigin(admitted, parts, find)
  const build = buildOf(first.request, file.build)
  const step = build === undefined ? undefined : parts.around?.decide(build, admitted)
  if (build !== undefined && step === undefined) {
    const answer = `is answered within the build ${build}, which only the running proxy can tell`
    return { verdict: { answer } }
  }
  if (step?.given !== undefined) {
    const { sentence: answer, outcome, because } = step.given
    return { verdict: { answer, fate: outcome, because, from: ['store'] } }
  }
  if (step !== undefined) find(step.remark.question, step.remark.answer)
  return ofArchive(admitted, parts, find)
}

function refused({ deny, sentence }: Refusal): Verdict {
  return { answer: `is refused. ${sentence}`, fate: 'refused', because: deny }
}

async function ofArchive(admitted: AdmittedFile, parts: ExplainParts, find: Find) {
  const { key, archive } = admitted.file
  const placed = archive.kind === 'release' ? await parts.delays?.foreseen(key) : undefined
  const made = await decide(admitted, parts, placed)
  findStored(admitted, made, parts, find)
  findSuite(admitted, made, parts, find)
  const verdict = verdictOf(admitted, made, parts)
  if (archive.kind === 'pool' || archive.kind === 'other') return { verdict }
  // apt sends this with every request for an index.
  const fields = admitted.request.fields.plus('Cache-Control', 'max-age=0')
  const update = { ...admitted, request: { ...admitted.request, fields } }
  const second = await decide(update, parts, placed)
  return second.decision.use === made.decision.use
    ? { verdict }
    : { verdict, update: verdictOf(update, second, parts) }
}

/** The answer in words. What is known of a refused address or redirect comes before the plan to fetch. */
function verdictOf(
  { file, admission }: AdmittedFile,
  { decision, stored }: FileDecision,
  parts: ExplainParts,
): Verdict {
  if ('pair' in decision && decision.pair === 'withheld') {
    return { answer: withheldPair, fate: 'failed', because: 'signature-withheld', from: [] }
  }
  const fate = fates[decision.use]
  const refusal = fate === 'miss' ? refusalNow(file, admission.trusted, parts) : undefined
  if (refusal !== undefined) return { answer: `is refused. ${refusal}`, fate: 'refused' }
  const answer = sentenceFor(decision, stored)
  if (decision.use === 'revalidate' && decision.atOnce !== undefined) {
    return { answer, fate: 'hit', because: decision.atOnce, from: ['store'] }
  }
  const because = decision.use === 'fetch' && decision.headAlone ? 'head' : decision.because
  return { answer, fate, because, from: sourcesOf(decision) }
}

/** The sources of the answer, in the order in which they are tried; none when the client gets no file. */
function sourcesOf(decision: Decision): readonly AnswerSource[] {
  switch (decision.use) {
    case 'store':
      return ['store']
    case 'revalidate':
      return ['origin', 'store']
    case 'fetch':
      return decision.from
    case 'pass':
      return ['origin']
    default:
      return []
  }
}

function findRoute({ rule, key }: FileDestination, find: Find): void {
  if (rule === undefined) return
  find('Routed by', `${rule.name}, from ${rule.from} to ${rule.to}`)
  find('Routed to', key)
}

/** What is known of the way to the origin. */
function findOrigin({ file, admission }: AdmittedFile, parts: ExplainParts, find: Find): void {
  const { config, policy } = parts.rules()
  const { uri, about, confinement } = file
  const pattern =
    admission.rule === '*' ? 'no host is listed, so every public host' : admission.rule
  const where = admission.trusted ? 'at any address' : 'at public addresses only'
  find('Admitted by', `${pattern} (${where})`)
  find('Origin', about.origin)
  const trouble = parts.fetcher?.trouble(uri)
  if (trouble !== undefined) find('Fails now', troubleText(trouble))
  const origin = formatAuthority(uri)
  for (const remark of parts.origins?.() ?? []) {
    if (remark.origin === origin) find('Origin now', remark.text)
  }
  if (confinement !== undefined) {
    const { setting, credentials } = confinement
    find('Clients', `only those of ${setting}; others are refused`)
    if (credentials !== undefined) {
      find('Asked with', `the credentials of this proxy (${credentials})`)
    }
  }
  if (config.parentProxy !== undefined) {
    find('Through', wayText(parentsOf(uri, policy.parents), parts))
  }
  const [, ...others] = placesOf(uri, config.archives)
  if (others.length > 0) {
    find('When it fails', others.map(one => formatAuthority(one, one.scheme)).join(', '))
  }
  for (const { question, answer } of findingsOf(uri, undefined, parts)) find(question, answer)
}

/** The key of the file, and what is stored under it. */
function findStored(
  { file: { key, archive }, admission }: AdmittedFile,
  { stored }: FileDecision,
  parts: ExplainParts,
  find: Find,
): void {
  find('Key', key)
  find('Kind', archive.immutable ? `${archive.kind}, never changes` : archive.kind)
  if (admission.allow !== 'passthrough' && isOfNoArchive(archive)) find('By client', byClient)
  if (stored === 'unreadable') find('Stored', 'not known: the disk cannot read the entry')
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
}

/** What the suite of the file says about it, and why clients get an earlier Release file. */
function findSuite(
  { file: { key, archive, uri } }: AdmittedFile,
  { stored, must }: FileDecision,
  parts: ExplainParts,
  find: Find,
): void {
  for (const at of archive.kind === 'pool' ? [] : directoriesOf(key)) {
    const refusal = parts.updates?.refusal(at)
    if (refusal !== undefined) find('Kept', refusal)
    for (const { suite } of parts.features ?? []) {
      const remark = suite?.(at, { counts: false })
      if (remark !== undefined) find(remark.label, remark.text)
    }
  }
  const entry = stored === 'unreadable' ? undefined : stored
  if (must?.is === 'named') findClaim(must.claim, entry, find)
  else if (must?.is === 'by-name' && must.digest !== undefined) {
    find('Must be', `what its name says: ${must.digest.algorithm} ${must.digest.hex}`)
  } else if (must?.is === 'awaited') find('Must be', 'what an index says that is being read')
  else if (must?.is === 'unnamed') find('Not compared', unnamedTexts[must.because])
  const bytes = must?.claim?.size ?? entry?.size ?? 0
  for (const { question, answer } of findingsOf(uri, bytes, parts)) find(question, answer)
}

const unnamedTexts: Readonly<Record<UnnamedReason, string>> = {
  'no-suite': 'no suite that is adopted names it',
  release: 'a Release file is what its signature says',
  unnamed: 'the adopted indexes do not name it',
  unreadable: 'an index that may name it cannot be read now',
  late: 'an index that may name it was not read in time',
}

function findClaim(claim: Claim, stored: Entry | undefined, find: Find): void {
  const { release, signature, adopted } = claim.generation
  find('Named by', `${claim.suite}/${release.name}, ${signatureText(signature)}`)
  find('Adopted', moment(adopted))
  const { contradicting, others = [] } = claim
  if (contradicting !== undefined) find('Contradiction', contradictionText(contradicting))
  if (claim.digest === stored?.digest) return
  const [first, ...more] = [claim, ...others].map(({ digest }) => digest)
  const digest = claim.by === undefined ? `the SHA-256 ${first}` : `a SHA-512 of ${first}…`
  find(
    'Must be',
    more.length > 0
      ? `one of the contents with the digests ${[first, ...more].join(', ')}`
      : `${claim.size} bytes with ${digest}`,
  )
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
  if (trusted || parentsOf(uri, rules().policy.parents).length > 0) return undefined
  const addresses = refusedAddresses?.(uri) ?? []
  if (addresses.length === 0) return undefined
  return addressRefusal(formatAuthority(uri), addresses.join(', ')).sentence
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
    const destination = destinationOfUrl(one, rules())
    if (typeof destination === 'string') return undefined
    if (((await store.read(destination.key)) !== undefined) !== is) return undefined
  }
  return escaped
}

/**
 * The verdict on an `https://` URL, for which apt asks for a tunnel to the host. Undefined for other URLs and for tunnels that are
 * intercepted.
 */
function unreadTunnel(
  url: string,
  {
    wanted: { asked },
    asking,
  }: {
    readonly wanted: FileDestination
    readonly asking: Omit<ClientApproach, 'authority'> | undefined
  },
  { policy, config }: Rules,
): Verdict | undefined {
  if (!/^https:/i.test(url)) return undefined
  const authority = { host: asked.host, port: asked.port }
  const admission = admitTunnel(authority, policy, asking)
  if ('deny' in admission) return refused(admission)
  if (admission.mode === 'intercept') return undefined
  if (config.offline) {
    return { answer: `is answered 504. ${tunnelOffline}`, fate: 'failed', because: 'offline' }
  }
  const stored = `http://HTTPS///${formatAuthority(asked, 'https')}${asked.path}`
  return {
    answer: `apt would tunnel it: the proxy carries it unread and stores nothing. Write ${stored} to have it stored`,
    fate: 'tunnel',
  }
}

function sentenceFor(decision: Decision, stored: Reading): string {
  const { because } = decision
  switch (decision.use) {
    case 'store':
      return stored !== 'unreadable' && stored?.digest === decision.entry.digest
        ? `is answered from the store (${because})`
        : `is answered from the store, which has this content under another name (${because})`
    case 'revalidate':
      return decision.atOnce !== undefined
        ? `is answered with the stored copy at once: the origin, or the update of its suite, has just failed (${decision.atOnce})`
        : `is answered once the origin has been asked whether the copy still holds (${because})`
    case 'fetch': {
      const { notStored, from } = decision
      if (decision.headAlone)
        return `is answered with the head of the origin, and not fetched (head)`
      if (because === 'superseded')
        return 'is fetched instead of the stored copy, which is not what the archive names (superseded)'
      if (notStored !== undefined && because === 'absent')
        return notStoredSentences[notStored] ?? notKept(notStored)
      if (from.includes('arriving')) return 'is answered while the file arrives (joined)'
      const near = from.includes('bucket') ? 'the shared store, else from the origin' : 'the origin'
      return `is fetched from ${near}, streamed and stored (${because})`
    }
    case 'pass':
      return `is passed through without being stored (${because})`
    case 'negative':
      return 'is answered 404: the origin said so a moment ago'
    case 'fail':
      return `is answered 504 (${because})`
    case 'withhold':
      return because === 'suite-withheld'
        ? `is answered 404. ${withoutFile['suite-withheld'][1]} (suite-withheld)`
        : 'is answered 503: the Release file that clients keep cannot be read now'
  }
}

const withheldPair = `is answered 404. ${signatureIsOfAnother} If the two of the origin turn out to be a pair, they are given`

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
