/**
 * Decides what a client gets for a file of an archive, from where, and why. The pipeline carries the decision out, and `explain` puts it
 * into words. It reads the rules, the store, the suites and what is known of origins. It writes nothing and asks no origin.
 */
import { continueWhenReady } from '../../async/ready.ts'
import { type RequestDirectives, requestDirectives } from '../../http/message/cache-control.ts'
import type { Request } from '../../http/message/message.ts'
import { runsInCircle } from '../../http/message/via.ts'
import type { Fetcher } from '../fetch/fetch.ts'
import { proofOf } from '../fetch/wanted-file.ts'
import {
  type AdmittedTarget,
  admitClient,
  admitToArchive,
  type Refusal,
  type Rules,
} from '../policy/policy.ts'
import {
  type Destination,
  destinationUnderKey,
  type FileDestination,
} from '../request/destination.ts'
import type { NonFileTarget } from '../request/request-target.ts'
import { choosingFields } from '../rfc9111/client-fields.ts'
import {
  type FailReason,
  type Decision as Lookup,
  lookup,
  type NegativeMemory,
  type OriginReason,
  type RevalidateReason,
  type StoreReason,
} from '../rfc9111/lookup.ts'
import type { DelayReason, StaleReason } from '../rfc9111/outcome.ts'
import { draftEntry, finishedEntry, nothingSaid } from '../rfc9111/stored-response.ts'
import type { Entry, Reading } from '../store/entry.ts'
import type { Claim } from '../suites/generation.ts'
import type { Client } from '../suites/given-releases.ts'
import type { MustBe } from '../suites/must-be.ts'
import type { Suites } from '../suites/suites.ts'
import type { SentCredentials } from './sent-credentials.ts'

/** The parts of a request that a decision depends on. `explain` has them without a connection. */
export type DecisiveRequest = Pick<Request, 'method' | 'fields' | 'received'> & {
  /** Undefined when no client is meant: then every client counts as allowed. */
  readonly client: Request['client'] | undefined
}

/** A request for a file that this client may have. */
export interface AdmittedFile {
  readonly kind: 'admitted'
  readonly request: DecisiveRequest
  readonly file: FileDestination
  readonly admission: AdmittedTarget
}

/** The first part of a decision. Only an admitted file has a second one. */
export type Approach =
  | Exclude<NonFileTarget, { readonly kind: 'connect' }>
  | { readonly kind: 'method'; readonly allowed: readonly string[] }
  | { readonly kind: 'denied'; readonly refusal: Refusal }
  | AdmittedFile

export interface ApproachParts {
  readonly rules: () => Rules
  /** The name of this proxy in Via, by which loops are detected; undefined in a process that is not a proxy. */
  readonly pseudonym?: string | undefined
  readonly sentCredentials?: Pick<SentCredentials, 'refusal'> | undefined
}

/** Decides whether the request is for a file, and whether this client may have the file. Nothing of the store is read. */
export function approach(
  request: DecisiveRequest,
  destination: Destination,
  parts: ApproachParts,
): Approach {
  // 1. Does the request ask for a page about the proxy, or for a file of an archive?
  if (destination.kind === 'connect') return { kind: 'method', allowed: ['GET', 'HEAD'] }
  if (destination.kind !== 'file') return destination

  // 2. Does the request only read? Nothing else is proxied.
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return { kind: 'method', allowed: ['GET', 'HEAD', 'CONNECT'] }
  }

  // 3. May this client reach this target, and the place where routing sends it?
  const { admission } = destination
  const refusal = clientRefusal(request, destination, parts)
  if (refusal !== undefined) return { kind: 'denied', refusal }
  if ('deny' in admission) return { kind: 'denied', refusal: admission }
  return { kind: 'admitted', request, file: destination, admission }
}

/** The refusal of a client that may not have this file; undefined when it may, and when no client is meant. */
function clientRefusal(
  { fields, client }: DecisiveRequest,
  destination: FileDestination,
  { rules, pseudonym = '', sentCredentials }: ApproachParts,
): Refusal | undefined {
  if (client === undefined) return undefined
  const { asked, confinement, admission, underOurAddress } = destination
  const { address } = client
  const inCircle = runsInCircle(fields, pseudonym)
  const refusal = admitClient({ authority: asked, client: address, inCircle }, rules().policy)
  if (refusal !== undefined || 'deny' in admission) return refusal
  return (
    (confinement && admitToArchive(address, confinement)) ??
    (underOurAddress ? sentCredentials?.refusal({ fields, client }, destination) : undefined)
  )
}

/** Refuses a file that the policy has admitted; undefined when it does not. Reads only. It is called for each request, and must be quick. */
export type RefuseFile = (
  file: FileDestination,
) => Refusal | undefined | Promise<Refusal | undefined>

type FileOfItsDay = FileDestination | { readonly sentence: string }

/** The file that a target of a snapshot stands for, the same file when it is for the present, or why there is none. */
export function fileOfItsDay(
  file: FileDestination,
  suites: Pick<Suites, 'past'> | undefined,
): FileOfItsDay | Promise<FileOfItsDay> {
  const { asOf, key, archive } = file
  if (asOf === undefined) return file
  if (suites === undefined) return { sentence: 'Only the running proxy can tell what it was.' }
  return continueWhenReady(suites.past(key, archive, asOf), found =>
    'sentence' in found ? found : destinationUnderKey(file, found.key),
  )
}

/** The parts that a decision reads. A command that runs beside the service has the rules and the store alone. */
export interface DecisionParts {
  readonly rules: () => Rules
  readonly store: {
    read(key: string): Reading | Promise<Reading>
    /** The entry at once, if it is in memory. */
    peek?(key: string): Entry | undefined
    /** Whether the store has a content under any name. */
    has?(digest: string): boolean
  }
  /** Whether a stored content may answer for a key other than the one it was stored under. */
  readonly shares?: (digest: string, key: string) => boolean
  readonly negative?: NegativeMemory
  readonly suites?: Pick<Suites, 'mustBe' | 'checkFrom' | 'governs'>
  readonly updates?: {
    /** Whether an entry is a Release file that changes only together with its suite. */
    governs(entry: Entry): boolean
    /** The reason why clients of the suite get its stored Release file, while its origin is not asked after a failure. */
    paused(entry: Entry): StaleReason | undefined
    /** Whether this client must not get the origin's detached signature, because it belongs to another Release file. */
    withholdsSignature(client: Client, key: string): boolean
  }
  readonly delays?: {
    /** The reason why clients get an earlier Release file under this key. */
    reason(key: string): DelayReason | undefined
    /** The reason why a Release file that the store cannot give must not be fetched either. */
    withholds(key: string): 'other-form' | 'unreadable' | undefined
  }
  readonly fetcher?: Pick<
    Fetcher,
    'isFetching' | 'isFetchedAnew' | 'isSlow' | 'notStored' | 'mayBeNear'
  >
}

/** The second part of a decision: what a client gets for an admitted file, and what was read for that. */
export interface FileDecision {
  readonly decision: Decision
  readonly directives: RequestDirectives
  readonly stored: Reading
  /** What indexes say about the file; undefined when they are not asked, because the client gets an answer of its own. */
  readonly must: MustBe | undefined
  /** The entry with all that indexes prove. When it is not the stored one, the store is to keep it. */
  readonly proven: Entry | undefined
}

export type Decision = Stored | Revalidation | Fetch | Passed | WithoutFile

/** Give what is stored, without a question to the origin. */
interface Stored {
  readonly use: 'store'
  readonly because: StoreReason | DelayReason
  readonly entry: Entry
}

/** Pass the request through, without storing the response. */
interface Passed {
  readonly use: 'pass'
  readonly because: Exclude<OriginReason, 'absent' | 'unreadable'>
}

/**
 * Give no file:
 * - negative: the origin has lately answered 404
 * - fail: the file is not stored, and must not be fetched
 * - withhold: clients keep an earlier Release file, which cannot be given in this form, or not now
 */
type WithoutFile =
  | { readonly use: 'negative'; readonly because: 'not-found-remembered' }
  | { readonly use: 'fail'; readonly because: FailReason }
  | { readonly use: 'withhold'; readonly because: 'suite-withheld' | 'RELEASE_UNREADABLE' }

interface OfPair {
  /**
   * A detached signature goes with its Release file, so the origin is asked for both: `adopted` when the signature of the client's
   * Release file is known, `withheld` when clients keep a Release file that has none. Then they get 404, unless the two of the origin
   * turn out to be a pair.
   */
  readonly pair: 'adopted' | 'withheld' | undefined
}

/** Give the stored copy once the origin has been asked about it. */
export interface Revalidation extends OfPair {
  readonly use: 'revalidate'
  readonly because: RevalidateReason
  readonly entry: Entry
  /** The Release file of an adopted suite changes only together with its suite. */
  readonly asks: 'file' | 'suite'
  /**
   * The reason for which the stored copy is given at once: the origin has just missed a deadline, and is asked in the background; or an update
   * of the suite has just failed. Undefined when the client waits for the origin.
   */
  readonly atOnce: StaleReason | undefined
}

/** Where content comes from, when it is not stored. */
export type ContentSource = 'arriving' | 'bucket' | 'origin'

/** Fetch the file and store it. */
export interface Fetch extends OfPair {
  readonly use: 'fetch'
  readonly because: 'absent' | 'unreadable' | 'superseded'
  /** The stored copy that is not what an index names. */
  readonly superseded: Entry | undefined
  /** The sources in the order in which they are tried. */
  readonly from: readonly ContentSource[]
  /** Whether the origin is asked for the head alone, so that no download begins. */
  readonly headAlone: boolean
  /** The reason why the last response was not stored; undefined when it was, and when none is remembered. */
  readonly notStored: string | undefined
}

/** A file that the store cannot give: it is fetched, or may not be. */
export type FetchDecision = Fetch | Extract<WithoutFile, { use: 'withhold' }>

const unknownClient = { address: '', port: 0 }

/**
 * Decides about an admitted file. `placed` is the Release file that the pipeline puts under the key before it asks, where that has not
 * been done (`SuiteDelays.foreseen`).
 */
export function decide(
  admitted: AdmittedFile,
  parts: DecisionParts,
  placed?: Entry,
): FileDecision | Promise<FileDecision> {
  const { key, archive } = admitted.file
  const { store, fetcher, suites } = parts
  // 5. Does the store have the file? The disk is not read while a fetch of the absent file is under way.
  const found =
    placed ??
    store.peek?.(key) ??
    (fetcher?.isFetchedAnew(key) === true ? undefined : store.read(key))
  return continueWhenReady(found, stored => {
    // Is it what the archive says it must be?
    const client = admitted.request.client ?? unknownClient
    const entry = stored === 'unreadable' ? undefined : stored
    const must = isForAll(admitted)
      ? suites?.mustBe({ key, archive, client, stored: entry })
      : undefined
    return continueWhenReady(must, must => decided(admitted, { stored, entry, must }, parts))
  })
}

function decided(
  admitted: AdmittedFile,
  {
    stored,
    entry,
    must,
  }: Pick<FileDecision, 'stored' | 'must'> & { readonly entry: Entry | undefined },
  parts: DecisionParts,
): FileDecision {
  const { file, request, admission } = admitted
  const { key, archive } = file
  const claim = must?.claim
  const awaited = must?.awaited
  const directives = directivesOf(request, file)
  const now = request.received
  const proven =
    claim === undefined ? entry : provenEntry({ file, claim, directives, now }, entry, parts)
  const isOther = archive.kind === 'other'
  // May it be used without asking the origin?
  const found = lookup({
    key,
    archive,
    stored: proven ?? stored,
    claim,
    awaited: awaited !== undefined,
    directives,
    // The fields of clients choose the answer for files of no APT kind alone.
    fields: isOther ? choosingFields({ request, file }) : undefined,
    unstorable: isOther && parts.fetcher?.notStored(key) !== undefined,
    authorization: hasOwnAnswer(admitted),
    passthrough: admission.allow === 'passthrough',
    now,
    config: parts.rules().config,
    negative: parts.negative,
    suites: parts.suites,
  })
  const decision =
    found.use === 'store' && archive.kind !== 'release'
      ? found
      : refined(found, { request, file, claim, awaited, directives }, parts)
  return { decision, directives, stored, must, proven }
}

/** Whether the answer is the same for all clients that may have the file. */
function isForAll(admitted: AdmittedFile): boolean {
  return admitted.admission.allow !== 'passthrough' && !hasOwnAnswer(admitted)
}

/** Whether the request has credentials for the origin. They are not sent when routing has replaced the host. */
function hasOwnAnswer({ request, file }: AdmittedFile): boolean {
  const has = file.asked.userinfo !== undefined || request.fields.has('Authorization')
  return has && file.credentials
}

/**
 * The directives of the client for caches. A client cannot forbid storing where this proxy has the credentials of the archive:
 * a response that is not stored would be passed through, and the proxy sends its credentials only with what it stores.
 */
function directivesOf(
  { fields }: DecisiveRequest,
  { confinement }: FileDestination,
): RequestDirectives {
  const directives = requestDirectives(fields)
  return confinement?.credentials === undefined ? directives : { ...directives, noStore: false }
}

/** A file with the claim of an index about it. */
interface ClaimedFile {
  readonly file: FileDestination
  readonly claim?: Claim | undefined
  readonly directives: RequestDirectives
  readonly now: number
}

/**
 * The entry for a file whose content an index names, with the proof. If the store has this content under another name only, that is an
 * entry under this name, which the store does not have yet.
 */
export function provenEntry(
  { file, claim, directives, now }: ClaimedFile,
  stored: Entry | undefined,
  { store, shares }: Pick<DecisionParts, 'store' | 'shares'>,
): Entry | undefined {
  const isNamed = claim === undefined || stored?.digest === claim.digest
  if (isNamed && (stored === undefined || stored.verified !== undefined)) return stored
  const verified = proofOf({ archive: file.archive, claim })
  if (isNamed) return verified === undefined ? stored : stored && { ...stored, verified }
  // Of several right contents the origin has to say which one it has.
  if (claim.others !== undefined || directives.noStore) return stored
  const isHere = store.has?.(claim.digest) === true && shares?.(claim.digest, file.key) !== false
  if (!isHere) return stored
  const draft = draftEntry(file.key, nothingSaid, { requested: now, received: now }, stored)
  return finishedEntry(draft, claim, undefined, verified)
}

/** A question about a file, with what indexes say of it. */
interface FileQuestion {
  readonly request: Pick<DecisiveRequest, 'method' | 'client'>
  readonly file: FileDestination
  readonly claim?: Claim | undefined
  readonly awaited?: Promise<Claim | undefined> | undefined
  readonly directives: RequestDirectives
}

const slow = 'stale-origin-failed'

/** The decision by the store's entry, with what the suite of the file and its origin add. */
function refined(found: Lookup, asked: FileQuestion, parts: DecisionParts): Decision {
  const { key, uri, archive } = asked.file
  const { fetcher, updates, delays } = parts
  switch (found.use) {
    case 'store': {
      const delay = delays?.reason(key)
      return delay === undefined ? found : { ...found, because: delay }
    }
    case 'revalidate': {
      const { entry } = found
      const ofAdopted = archive.detached && asked.claim !== undefined
      const pair = withheldPair(asked, parts) ?? (ofAdopted ? 'adopted' : undefined)
      const isSlow = fetcher?.isSlow(uri) === true
      return updates?.governs(entry) === true
        ? { ...found, pair, asks: 'suite', atOnce: isSlow ? slow : updates.paused(entry) }
        : { ...found, pair, asks: 'file', atOnce: isSlow ? slow : undefined }
    }
    case 'replace':
      return decideFetch(asked, parts, found)
    case 'origin': {
      const { because } = found
      return because === 'absent' || because === 'unreadable'
        ? decideFetch(asked, parts, { because })
        : { use: 'pass', because }
    }
    case 'fail':
      // A file that is arriving counts as stored here. Other nodes of a shared store ask so, and two nodes must not wait for each other.
      return found.because === 'only-if-cached' && fetcher?.isFetchedAnew(key) === true
        ? decideFetch(asked, parts, { because: 'absent' })
        : found
    case 'negative':
      return found
  }
}

/** Decides about a file that the store cannot give, or gives no more. `entry` is a stored copy that is not what an index names. */
export function decideFetch(
  asked: FileQuestion,
  parts: Pick<DecisionParts, 'delays' | 'updates' | 'fetcher'>,
  { because, entry }: { readonly because: Fetch['because']; readonly entry?: Entry },
): FetchDecision {
  const { request, file, claim, awaited, directives } = asked
  const { key, uri, archive } = file
  const { fetcher, delays } = parts
  const withheld = archive.kind === 'release' ? delays?.withholds(key) : undefined
  if (withheld !== undefined) {
    const because = withheld === 'other-form' ? 'suite-withheld' : 'RELEASE_UNREADABLE'
    return { use: 'withhold', because }
  }
  const insist = isInsisting(directives)
  const isArriving = fetcher?.isFetching(key) === true
  const isNear = fetcher?.mayBeNear({ key, uri, archive, claim, awaited, stored: entry, insist })
  const headAlone = request.method === 'HEAD' && !isArriving
  const near = isNear === true ? (['bucket'] as const) : []
  return {
    use: 'fetch',
    because,
    superseded: entry,
    from: isArriving ? ['arriving'] : headAlone ? ['origin', ...near] : [...near, 'origin'],
    pair: withheldPair(asked, parts),
    headAlone,
    notStored: fetcher?.notStored(key),
  }
}

/** Whether the client wants the answer of the origin itself, not that of a cache on the way. */
export function isInsisting({ noCache, maxAge }: RequestDirectives): boolean {
  return noCache || maxAge === 0
}

function withheldPair(
  { request, file, claim }: FileQuestion,
  { updates }: Pick<DecisionParts, 'updates'>,
): 'withheld' | undefined {
  if (claim !== undefined || !file.archive.detached) return undefined
  const client = request.client ?? unknownClient
  return updates?.withholdsSignature(client, file.key) === true ? 'withheld' : undefined
}
