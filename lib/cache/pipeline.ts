/**
 * Takes a request through its steps (docs/life-of-a-request.md). The order is the security argument: the store is read after
 * the policy has admitted the request, a request with credentials is not answered from the store, and the network comes last.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../async/clock.ts'
import { whenReady } from '../async/ready.ts'
import type { OriginClient } from '../http/client/client.ts'
import { requestDirectives } from '../http/message/cache-control.ts'
import type { Handler, Request, Response } from '../http/message/message.ts'
import { hasPassed } from '../http/proxy/via.ts'
import { malformed } from '../http/server/exchanges.ts'
import { methodNotAllowed } from '../http/server/router.ts'
import type { Answerer } from './answer/answerer.ts'
import { notKept, notStored, originSaid, refused } from './answer/errors.ts'
import { relay } from './answer/pass.ts'
import type { Allowed } from './answer/representation.ts'
import { decide } from './decision.ts'
import { type Admission, type Admitted, admitClient, type Policy } from './policy/policy.ts'
import type { Rules } from './policy/rules.ts'
import { Destinations, type FileDestination, keptAs } from './request/destination.ts'
import { sandboxed } from './request/sandbox.ts'
import type { Decision } from './rfc9111/lookup.ts'
import type { NegativeMemory } from './rfc9111/negative.ts'
import type { Entry } from './store/entry.ts'
import type { Store } from './store/store.ts'
import type { Suites } from './suites/suites.ts'

interface PipelineParts {
  readonly rules: () => Rules
  readonly operations: (request: Request, path: string, query?: string) => Promise<Response>
  readonly store: Store
  readonly suites: Suites
  readonly negative: NegativeMemory
  readonly answerer: Answerer
  readonly origin: OriginClient
  readonly clock: Clock
  /** Our name in Via, by which loops are detected. */
  readonly pseudonym: string
  readonly onFetched: (bytes: number) => void
}

/** The proxy as a handler. CONNECT has a handler of its own (intercept/connect.ts). */
export function pipeline(parts: PipelineParts): Handler {
  let destinations: Destinations | undefined
  return request => {
    const rules = parts.rules()
    if (destinations?.rules !== rules) destinations = new Destinations(rules)

    // 1. What is asked for: a page about us, or a file of an archive?
    const destination = destinations.of(request)
    if (destination.kind === 'refuse') return malformed(destination)
    if (destination.kind === 'operations') {
      return parts.operations(request, destination.path, destination.query)
    }
    if (destination.kind === 'connect') return methodNotAllowed(['GET', 'HEAD'])

    // 2. Archives are read. Nothing else is proxied.
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return methodNotAllowed(['GET', 'HEAD', 'CONNECT'])
    }

    // 3. May this client reach this target, and the place routing sends it to?
    const admission = admitted(request, destination, rules.policy, parts.pseudonym)
    if ('deny' in admission) return refused(request, admission.deny, admission.sentence)

    // Of a file as of a day, which one was it then?
    const { asOf, key, archive } = destination
    if (asOf === undefined) return answered(request, destination, { admission, rules, parts })
    return whenReady(parts.suites.past.find(key, archive, asOf), found => {
      return 'sentence' in found
        ? notKept(request, found.sentence, destination.about)
        : answered(request, keptAs(destination, found.key), { admission, rules, parts })
    })
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
  destination: FileDestination,
  { admission, rules, parts }: Admittance,
): Response | Promise<Response> {
  // 4. Under which key is it stored, and can it change?
  const { asked, uri, key, archive, about, credentials } = destination
  const allowed = {
    request,
    uri,
    key,
    archive,
    directives: requestDirectives(request.fields),
    about,
    credentials,
    tools: { now: parts.clock.now(), boundary: newBoundary, via: `1.1 ${parts.pseudonym}` },
  }

  // 5. Does the store have it, is it what the archive says it must be, and may it be used without asking the origin?
  const hasCredentials = asked.userinfo !== undefined || request.fields.has('Authorization')
  const found = parts.store.peek(key) ?? parts.answerer.stored(key)
  const passthrough = admission.allow === 'passthrough'
  // When routing replaced the host, the credentials are not sent.
  const authorization = hasCredentials && credentials
  const response = whenReady(found, stored => {
    const { client } = request
    const asked = { key, archive, client, stored }
    const claimed = passthrough || authorization ? undefined : parts.suites.claim(asked)
    return whenReady(claimed, claim => {
      const known = claim === undefined ? allowed : { ...allowed, claim }
      const decision = decide(
        {
          key,
          archive,
          stored: claim === undefined ? stored : settled(known, stored, parts.answerer),
          claim,
          directives: allowed.directives,
          authorization,
          passthrough,
          now: allowed.tools.now,
        },
        { negative: parts.negative, suites: parts.suites, config: rules.config },
      )

      // 6. The response.
      return answer(decision, known, admission, parts)
    })
  })
  return destination.underOurAddress
    ? whenReady(response, ready => sandboxed(ready, request.target))
    : response
}

/** What the store has of a file whose content an index names: under this name, or under another. */
function settled(
  allowed: Allowed,
  stored: Entry | undefined,
  answerer: Answerer,
): Entry | undefined {
  const elsewhere = allowed.directives.noStore ? undefined : answerer.elsewhere(allowed, stored)
  if (elsewhere !== undefined) return elsewhere
  return stored && answerer.confirmed(allowed, stored)
}

function answer(
  decision: Decision,
  allowed: Allowed & { readonly credentials: boolean },
  admission: Admitted,
  parts: PipelineParts,
): Response | Promise<Response> {
  const { request, uri, about } = allowed
  const { answerer } = parts
  switch (decision.use) {
    case 'store':
      return answerer.fromStore(allowed, decision.entry, decision.because)
    case 'revalidate':
      return answerer.revalidated(allowed, decision.entry)
    case 'replace':
      return answerer.replaced(allowed, decision.entry)
    case 'negative':
      return originSaid(request, { status: 404, because: decision.because }, about)
    case 'fail':
      return notStored(request, decision.because, about)
    case 'origin':
      if (decision.because === 'absent') return answerer.fetched(allowed)
      return relay(request, uri, about, {
        origin: parts.origin,
        trusted: admission.trusted,
        credentials: allowed.credentials,
        pseudonym: parts.pseudonym,
        because: decision.because,
        onFetched: parts.onFetched,
        clock: parts.clock,
      })
  }
}

/** Checks the client first, then the target. */
function admitted(
  request: Request,
  { asked, admission }: FileDestination,
  policy: Policy,
  pseudonym: string,
): Admission {
  const refusal = admitClient(
    {
      authority: asked,
      client: request.client.address,
      passedBefore: hasPassed(request.fields, pseudonym),
    },
    policy,
  )
  return refusal ?? admission
}

function newBoundary(): string {
  return randomBytes(16).toString('hex')
}
