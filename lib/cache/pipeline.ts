/**
 * Takes a request through its steps (docs/life-of-a-request.md). The order is the security argument: the store is read after
 * the policy has admitted the request, a request with credentials is not answered from the store, and the network comes last.
 */

import { createHmac, randomBytes } from 'node:crypto'
import type { Clock, Milliseconds } from '../async/clock.ts'
import { whenReady } from '../async/ready.ts'
import type { OriginClient } from '../http/client/client.ts'
import { requestDirectives } from '../http/message/cache-control.ts'
import type { Handler, Request, Response } from '../http/message/message.ts'
import { runsInCircle } from '../http/proxy/hop-by-hop.ts'
import { malformedResponse } from '../http/server/exchanges.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import { recentEntries } from '../recent.ts'
import {
  notKept,
  notStored,
  originSaid,
  refusedResponse,
  tooManyConnections,
} from './answer/errors.ts'
import { passedResponse } from './answer/from-origin.ts'
import type { AllowedRequest } from './answer/representation.ts'
import type { Answering } from './answering.ts'
import type { BuildAnswers } from './builds/answers.ts'
import { buildOf } from './builds/build.ts'
import {
  type Admitted,
  admitClient,
  admitToArchive,
  type Denied,
  type Rules,
} from './policy/policy.ts'
import {
  Destinations,
  type FileDestination,
  keptAs,
  sandboxedResponse,
} from './request/destination.ts'
import { type Decision, lookup } from './rfc9111/lookup.ts'
import type { Store } from './store/store.ts'

interface PipelineParts
  extends Pick<
    Answering,
    'answerer' | 'fetcher' | 'negative' | 'suites' | 'delays' | 'settleRelease'
  > {
  readonly builds: BuildAnswers
  readonly rules: () => Rules
  readonly operations: (request: Request, path: string, query?: string) => Promise<Response>
  readonly store: Store
  readonly origin: OriginClient
  readonly clock: Clock
  /** Our name in Via, by which loops are detected. */
  readonly pseudonym: string
  readonly onFetched: (bytes: number) => void
}

/** The proxy as a handler. CONNECT has a handler of its own (intercept/connect.ts). */
export function pipeline(parts: PipelineParts): Handler {
  let destinations: Destinations | undefined
  const credentialHosts = new CredentialHosts(parts.clock)
  return request => {
    const rules = parts.rules()
    if (destinations?.rules !== rules) destinations = new Destinations(rules)

    // 1. What is asked for: a page about us, or a file of an archive?
    const destination = destinations.of(request)
    if (destination.kind === 'refuse') return malformedResponse(destination)
    if (destination.kind === 'operations') {
      return parts.operations(request, destination.path, destination.query)
    }
    if (destination.kind === 'connect') return methodNotAllowed(['GET', 'HEAD'])

    // 2. Archives are read. Nothing else is proxied.
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return methodNotAllowed(['GET', 'HEAD', 'CONNECT'])
    }

    // 3. May this client reach this target, and the place routing sends it to?
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
    const shared = sharedCredentials(request, destination, { admission, credentialHosts })
    if (shared !== undefined) return refusedResponse(request, shared)

    // Has this client no more connections than it may have?
    const admittance = { admission, rules, parts }
    const { clientPlace } = request
    if (clientPlace === undefined) return settled(request, destination, admittance)
    return whenReady(clientPlace.admits(), admitted =>
      admitted
        ? settled(request, destination, admittance)
        : tooManyConnections(request, rules.config.limits.perClient.connections),
    )
  }
}

/** The answer once it is known which file is meant: of a file as of a day, which one was it then? */
function settled(
  request: Request,
  file: FileDestination,
  admittance: Admittance,
): Response | Promise<Response> {
  const { asOf, key, archive } = file
  if (asOf === undefined) return answered(request, file, admittance)
  return whenReady(admittance.parts.suites.past.find(key, archive, asOf), found =>
    'sentence' in found
      ? notKept({ request, file }, found.sentence)
      : answered(request, keptAs(file, found.key), admittance),
  )
}

/** The refusal for credentials that the client has sent to another archive by the same prefix. */
function sharedCredentials(
  request: Request,
  { underOurAddress, asked }: FileDestination,
  by: { readonly admission: Admitted; readonly credentialHosts: CredentialHosts },
): Denied | undefined {
  const credentials = request.fields.get('Authorization') ?? asked.userinfo
  if (credentials === undefined || !underOurAddress || by.admission.trusted) return undefined
  const client = request.client.address
  const other = by.credentialHosts.otherThan(asked.host, { client, credentials })
  if (other === undefined) return undefined
  return {
    deny: 'credentials',
    sentence: `The credentials for ${asked.host} went to ${other} before: a line of auth.conf such as \`machine http://HTTPS\` gives them to every archive. Write \`machine http://HTTPS///${asked.host}/\`, which is admitted ten minutes after ${other} got them last, or list both hosts under \`private_domains\` if they share a password.`,
  }
}

/** How a request is admitted, under which rules, and what answers it. */
interface Admittance {
  readonly admission: Admitted
  readonly rules: Rules
  readonly parts: PipelineParts
}

/** The answer to a request that is admitted. */
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
  // Within a build, was it recorded?
  const build = buildOf(request, file.build)
  const response =
    build === undefined
      ? fromArchive(allowed, admittance)
      : parts.builds.answer(build, allowed, noted => fromArchive(noted, admittance))
  return file.underOurAddress
    ? whenReady(response, ready => sandboxedResponse(ready, request.target, file.uri))
    : response
}

/** The answer with a file as it is now, or was at a day. */
function fromArchive(
  allowed: AllowedRequest,
  { admission, rules: { config }, parts }: Admittance,
): Response | Promise<Response> {
  // 4. Under which key is it stored, and can it change?
  const { request, file } = allowed
  const { key, archive } = file

  // 5. Does the store have it, is it what the archive says it must be, and may it be used without asking the origin?
  const passthrough = admission.allow === 'passthrough'
  // When routing replaced the host, the credentials are not sent.
  const hasCredentials = file.asked.userinfo !== undefined || request.fields.has('Authorization')
  const authorization = hasCredentials && file.credentials
  const { answerer, negative, suites } = parts
  const settled = archive.kind === 'release' ? parts.settleRelease(key) : undefined
  const found =
    settled === undefined
      ? (parts.store.peek(key) ?? answerer.stored(key))
      : settled.then(() => answerer.stored(key))
  return whenReady(found, reading => {
    const stored = reading === 'unreadable' ? undefined : reading
    const asked = { key, archive, client: request.client, stored }
    const shared = !passthrough && !authorization
    if (shared) suites.askedByClient(asked)
    // The origin is asked while the index that may name the file is still being read.
    const awaited = shared ? suites.awaitedClaim(asked) : undefined
    const claimed = shared && awaited === undefined ? suites.claim(asked) : undefined
    return whenReady(claimed, claim => {
      const known =
        claim === undefined && awaited === undefined ? allowed : { ...allowed, claim, awaited }
      const decision = lookup({
        key,
        archive,
        stored: (claim === undefined ? undefined : answerer.settled(known, stored)) ?? reading,
        claim,
        awaited: awaited !== undefined,
        directives: allowed.directives,
        authorization,
        passthrough,
        now: allowed.now,
        config,
        negative,
        suites,
      })

      // 6. The response.
      return answer(decision, known, parts)
    })
  })
}

/**
 * What the client asks of caches. Where this proxy has the credentials of an archive, every request takes the way on which they are
 * sent, so a client cannot forbid to store.
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
      return originSaid(allowed, { status: 404, because: decision.because })
    case 'fail': {
      // What is arriving is as good as stored: another node of ours asks so, which must not have us wait for it in turn.
      const arriving =
        decision.because === 'only-if-cached' && fetcher.isFetchedAnew(allowed.file.key)
      return arriving ? answerer.fetched(allowed, 'absent') : notStored(allowed, decision.because)
    }
    case 'origin':
      return decision.because === 'absent' || decision.because === 'unreadable'
        ? answerer.fetched(allowed, decision.because)
        : passedResponse(allowed, decision.because, {
            ...parts,
            sendsVia: () => parts.rules().config.via,
          })
  }
}

/*
 * Notices credentials that a client sends to more than one archive by a URL prefix. apt matches `machine http://HTTPS` in its auth.conf, or the
 * name of this proxy, with every archive that is asked for so, and would give the password of one to all of them. The line that was
 * meant names the archive as well: `machine http://HTTPS///archive.example.org/`.
 *
 * # Facts
 * - A single request does not show it: the first archive that gets the credentials is taken for the right one, the second is refused.
 *   The first may be the wrong one, so it counts only for a time: once the line names its archive, that is admitted.
 * - Two archives may have the same password. Hosts that the operator lists by name are not compared.
 */

/** Clients and credentials that are remembered. */
const most = 10_000
/** How long a host counts after it got them last. */
const memory: Milliseconds = 10 * 60_000

class CredentialHosts {
  readonly #clock: Pick<Clock, 'elapsed'>
  /** The host that got them, and when it did last, by a digest of the client and its credentials. */
  readonly #hosts = recentEntries<string, { readonly host: string; at: Milliseconds }>(most)
  readonly #key = randomBytes(32)

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /** The other host that these credentials of a client went to; undefined when this is the one. */
  otherThan(
    host: string,
    of: { readonly client: string; readonly credentials: string },
  ): string | undefined {
    const digest = createHmac('sha256', this.#key)
      .update(`${of.client} ${of.credentials}`)
      .digest('base64')
    const now = this.#clock.elapsed()
    const first = this.#hosts.get(digest)
    if (first !== undefined && first.host !== host && now - first.at < memory) return first.host
    if (first?.host === host) first.at = now
    else this.#hosts.set(digest, { host, at: now })
    return undefined
  }
}
