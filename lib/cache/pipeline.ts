/**
 * Takes a request through its steps (docs/cachesvc-request.md). The order is the security argument: the store is read after
 * the policy has admitted the request, a request with credentials is not answered from the store, and the network comes last.
 */

import { createHmac, randomBytes } from 'node:crypto'
import type { Clock, Milliseconds } from '../async/clock.ts'
import { continueWhenReady } from '../async/ready.ts'
import type { OriginClient } from '../http/client/client.ts'
import { requestDirectives } from '../http/message/cache-control.ts'
import type { Handler, Request, Response } from '../http/message/message.ts'
import { runsInCircle } from '../http/message/via.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import { recentEntries } from '../recent.ts'
import { answerInBuild } from './answer/build-answers.ts'
import {
  failedResponse,
  originStatusResponse,
  refusedResponse,
  tooManyConnectionsResponse,
  withoutFileResponse,
  withoutTargetResponse,
} from './answer/errors.ts'
import { choosingFields, passedResponse } from './answer/from-origin.ts'
import type { AllowedRequest } from './answer/representation.ts'
import type { AnswerParts } from './answering.ts'
import type { Builds } from './features/builds/builds.ts'
import {
  type AdmittedTarget,
  admitClient,
  admitToArchive,
  type Refusal,
  type Rules,
} from './policy/policy.ts'
import {
  buildOf,
  destinationUnderKey,
  type FileDestination,
  rememberedDestinations,
  sandboxedResponse,
} from './request/destination.ts'
import { type Decision, lookup } from './rfc9111/lookup.ts'
import type { Store } from './store/store.ts'

interface PipelineParts
  extends Pick<
    AnswerParts,
    'answerer' | 'fetcher' | 'negative' | 'suites' | 'delays' | 'settleRelease'
  > {
  readonly builds: Builds
  readonly rules: () => Rules
  readonly operations: (request: Request, path: string, query?: string) => Promise<Response>
  readonly store: Store
  readonly origin: OriginClient
  readonly clock: Clock
  /** The name of this proxy in Via, by which loops are detected. */
  readonly pseudonym: string
  readonly onFetched: (bytes: number) => void
}

/** The handler of all requests but CONNECT, which has its own handler (intercept/connect.ts). */
export function pipeline(parts: PipelineParts): Handler {
  const destinationOf = rememberedDestinations()
  const otherHost = credentialMemory(parts.clock)
  return request => {
    const rules = parts.rules()

    // 1. Does the request ask for a page about the proxy, or for a file of an archive?
    const destination = destinationOf(request, rules)
    if (destination.kind === 'refuse') return withoutTargetResponse(destination)
    if (destination.kind === 'operations') {
      return parts.operations(request, destination.path, destination.query)
    }
    if (destination.kind === 'connect') return methodNotAllowed(['GET', 'HEAD'])

    // 2. Does the request only read? Nothing else is proxied.
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return methodNotAllowed(['GET', 'HEAD', 'CONNECT'])
    }

    // 3. May this client reach this target, and the place where routing sends it?
    const approach = {
      authority: destination.asked,
      client: request.client.address,
      inCircle: runsInCircle(request.fields, parts.pseudonym),
    }
    const admission = admitClient(approach, rules.policy) ?? destination.admission
    if ('deny' in admission) return refusedResponse(request, admission)
    const { confinement } = destination
    const kept = confinement && admitToArchive(request.client.address, confinement)
    if (kept !== undefined) return refusedResponse(request, kept)
    const shared = sharedCredentials(request, destination, { admission, otherHost })
    if (shared !== undefined) return refusedResponse(request, shared)

    // Does this client have no more connections than it may have?
    const admittance = { admission, rules, parts }
    const { clientPlace } = request
    if (clientPlace === undefined) return settled(request, destination, admittance)
    return continueWhenReady(clientPlace.admits(), admitted =>
      admitted
        ? settled(request, destination, admittance)
        : tooManyConnectionsResponse(request, rules.config.limits.perClient.connections),
    )
  }
}

/** The answer to a request for a file. For a file as of a day, this first finds the file that the name stood for on that day. */
function settled(
  request: Request,
  file: FileDestination,
  admittance: Admittance,
): Response | Promise<Response> {
  const { asOf, key, archive } = file
  if (asOf === undefined) return answered(request, file, admittance)
  return continueWhenReady(admittance.parts.suites.past(key, archive, asOf), found =>
    'sentence' in found
      ? failedResponse({ request, file }, 'no-snapshot', { status: 404, sentence: found.sentence })
      : answered(request, destinationUnderKey(file, found.key), admittance),
  )
}

/** The refusal for credentials that the client has sent to another archive; undefined when it has not. */
function sharedCredentials(
  request: Request,
  { underOurAddress, asked }: FileDestination,
  by: {
    readonly admission: AdmittedTarget
    readonly otherHost: ReturnType<typeof credentialMemory>
  },
): Refusal | undefined {
  const credentials = request.fields.get('Authorization') ?? asked.userinfo
  if (credentials === undefined || !underOurAddress || by.admission.trusted) return undefined
  const other = by.otherHost(asked.host, request.client.address, credentials)
  if (other === undefined) return undefined
  return {
    deny: 'credentials',
    sentence: `The credentials for ${asked.host} went to ${other} before: a line of auth.conf such as \`machine http://HTTPS\` gives them to every archive. Write \`machine http://HTTPS///${asked.host}/\`, which is admitted ten minutes after ${other} got them last, or list both hosts under \`private_domains\` if they share a password.`,
  }
}

/** The admission of a request, the rules it was made with, and the parts that answer. */
interface Admittance {
  readonly admission: AdmittedTarget
  readonly rules: Rules
  readonly parts: PipelineParts
}

function answered(
  request: Request,
  file: FileDestination,
  admittance: Admittance,
): Response | Promise<Response> {
  const { admission, parts } = admittance
  const allowed: AllowedRequest = {
    request,
    file,
    trusted: admission.trusted,
    directives: directivesOf(request, file),
    now: request.received,
    via: `1.1 ${parts.pseudonym}`,
  }
  // Does the request belong to a build, which may have recorded the answer?
  const name = buildOf(request, file.build)
  const plain = (noted: AllowedRequest) => fromArchive(noted, admittance)
  const response =
    name === undefined ? plain(allowed) : answerInBuild({ name, allowed, plain }, parts)
  return file.underOurAddress
    ? continueWhenReady(response, ready => sandboxedResponse(ready, request.target, file.uri))
    : response
}

/** The answer from an archive: from the store or from its origin. */
function fromArchive(
  allowed: AllowedRequest,
  { admission, rules: { config }, parts }: Admittance,
): Response | Promise<Response> {
  // 4. Under which key is the file stored, and can it change?
  const { request, file } = allowed
  const { key, archive } = file

  // 5. Does the store have the file, is it what the archive says it must be, and may it be used without asking the origin?
  const passthrough = admission.allow === 'passthrough'
  // The credentials are not sent when routing has replaced the host.
  const hasCredentials = file.asked.userinfo !== undefined || request.fields.has('Authorization')
  const authorization = hasCredentials && file.credentials
  const { answerer, negative, suites } = parts
  const settled = archive.kind === 'release' ? parts.settleRelease(key) : undefined
  const found =
    settled === undefined
      ? (parts.store.peek(key) ?? answerer.stored(key))
      : settled.then(() => answerer.stored(key))
  return continueWhenReady(found, reading => {
    const stored = reading === 'unreadable' ? undefined : reading
    const asked = { key, archive, client: request.client, stored }
    const shared = !passthrough && !authorization
    if (shared) suites.askedByClient(asked)
    // The origin is asked while the index that may name the file is still being read.
    const awaited = shared ? suites.awaitedClaim(asked) : undefined
    const claimed = shared && awaited === undefined ? suites.claim(asked) : undefined
    return continueWhenReady(claimed, claim => {
      const known =
        claim === undefined && awaited === undefined ? allowed : { ...allowed, claim, awaited }
      const proven = claim === undefined ? stored : answerer.provenEntry(known, stored)
      const decision = lookup({
        key,
        archive,
        stored: proven ?? reading,
        claim,
        awaited: awaited !== undefined,
        directives: allowed.directives,
        fields: choosingFields(allowed),
        unstorable: archive.kind === 'other' && parts.fetcher.notStored(key) !== undefined,
        authorization,
        passthrough,
        now: allowed.now,
        config,
        negative,
        suites,
      })

      // The store keeps what an index has proved of the file, whatever is decided.
      answerer.keepProven(proven, stored)

      // 6. The decision is carried out.
      return answer(decision, known, parts)
    })
  })
}

/**
 * The directives of the client for caches. A client cannot forbid storing where this proxy has the credentials of the archive:
 * a response that is not stored would be passed through, and the proxy sends its credentials only with what it stores.
 */
function directivesOf(
  { fields }: Request,
  { confinement }: FileDestination,
): AllowedRequest['directives'] {
  const directives = requestDirectives(fields)
  return confinement?.credentials === undefined ? directives : { ...directives, noStore: false }
}

function answer(
  decision: Decision,
  allowed: AllowedRequest,
  parts: PipelineParts,
): Response | Promise<Response> {
  const { answerer, fetcher } = parts
  switch (decision.use) {
    case 'store': {
      const { file } = allowed
      const delay = file.archive.kind === 'release' ? parts.delays.reason(file.key) : undefined
      return answerer.fromStore(allowed, decision.entry, delay ?? decision.because)
    }
    case 'revalidate':
      return answerer.revalidated(allowed, decision.entry)
    case 'replace':
      return answerer.fetchedAnew(allowed, { superseded: decision.entry })
    case 'negative':
      return originStatusResponse(allowed, { status: 404, because: decision.because })
    case 'fail': {
      // A file that is arriving counts as stored here. Other nodes of a shared store ask so, and two nodes must not wait for each other.
      const arriving =
        decision.because === 'only-if-cached' && fetcher.isFetchedAnew(allowed.file.key)
      return arriving
        ? answerer.fetched(allowed, 'absent')
        : withoutFileResponse(allowed, decision.because)
    }
    case 'origin':
      return decision.because === 'absent' || decision.because === 'unreadable'
        ? answerer.fetched(allowed, decision.because)
        : passedResponse(allowed, decision.because, parts)
  }
}

/*
 * Notices credentials that a client sends to more than one archive by a URL prefix. apt matches a line `machine http://HTTPS` of its
 * auth.conf, or one with the name of this proxy, with every archive that is asked for by a prefix, and would send the password of one
 * archive to all of them. The line should name the archive as well: `machine http://HTTPS///archive.example.org/`.
 *
 * # Facts
 * - A single request does not show the mistake. The first archive that gets the credentials counts as the right one, and the second
 *   is refused. The first may be the wrong one, so it counts only for a time.
 * - Two archives may have the same password. Hosts that the operator lists by name are not compared.
 */

/** The most pairs of a client and its credentials that are remembered. */
const most = 10_000
/** The time for which a host counts after it last got the credentials. */
const memory: Milliseconds = 10 * 60_000

/**
 * Makes a function that returns the other host that got these credentials of a client before; undefined when only this host has got them.
 */
function credentialMemory(clock: Pick<Clock, 'elapsed'>) {
  /** The host that got the credentials, and the moment when it last did, by a digest of the client and its credentials. */
  const hosts = recentEntries<string, { readonly host: string; at: Milliseconds }>(most)
  const key = randomBytes(32)
  return (host: string, client: string, credentials: string): string | undefined => {
    const digest = createHmac('sha256', key).update(`${client} ${credentials}`).digest('base64')
    const now = clock.elapsed()
    const first = hosts.get(digest)
    if (first !== undefined && first.host !== host && now - first.at < memory) return first.host
    if (first?.host === host) first.at = now
    else hosts.set(digest, { host, at: now })
    return undefined
  }
}
