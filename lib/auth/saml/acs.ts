/**
 * The assertion's way in, in this order: size limit, login state, strict base64 and UTF-8, scan, structure and algorithms, a
 * thread with a deadline for the cryptography, our own checks of the signed assertion, request ID and assertion ID used up in
 * one step, session. Whatever fails, strangers see one page; the exact code is in the log.
 *
 * The state comes before the parser: without a login under way in this very browser nothing is parsed at all.
 */
import { Fields } from '../../http/message/field.ts'
import { noContent, type Request, type Response } from '../../http/message/message.ts'
import { ownerCookie } from '../form-preservation/owner.ts'
import { refused } from './acs-page.ts'
import { onlyValue, readForm } from './binding/post.ts'
import { decodeBase64 } from './core/base64.ts'
import {
  type AssertionVerdict,
  type CheckedAssertion,
  checkAssertion,
} from './core/check-assertion.ts'
import { messageLimits } from './core/scan.ts'
import type { ResponseVerdict, VerifiedResponse } from './core/verify-response.ts'
import { type Flow, type LoginState, withDone } from './login-state.ts'
import { keepState, returnPath, type Saml, safeReturn, stateOf } from './parts.ts'
import { loginAddress } from './redirect-endpoint.ts'
import { WorkerFailure } from './worker/thread.ts'

/** Base64 of the largest message, percent-encoded at worst, with a RelayState. */
const FORM_SIZE = messageLimits.size * 4

/** Answers POST /saml/acs. */
export async function takeAssertion(saml: Saml, request: Request): Promise<Response> {
  const form = await readForm(request, { ...saml, size: FORM_SIZE, time: 30_000 })
  if (!form.ok) return refused(saml, request, { code: form.because })
  const encoded = onlyValue(form.pairs, 'SAMLResponse')
  const relayState = onlyValue(form.pairs, 'RelayState')
  if (typeof encoded !== 'string' || typeof relayState === 'object') {
    return refused(saml, request, { code: 'form_malformed' })
  }

  const { found, state } = stateOf(saml, request)
  const { idpInitiated } = saml.config()
  const open = state.flows.filter(flow => !flow.done)
  if (open.length === 0 && !idpInitiated) {
    return withoutLogin(saml, request, { found, state, encoded, relayState })
  }
  if (saml.source.current() === undefined) return refused(saml, request, { code: 'idp_metadata' })

  const bytes = decodeBase64(encoded)
  if (bytes === undefined) return refused(saml, request, { code: 'base64' })
  if (bytes.length > messageLimits.size) return refused(saml, request, { code: 'xml_too-large' })
  const verdict = await verify(saml, bytes)
  if (verdict instanceof WorkerFailure) {
    return refused(saml, request, { code: verdict.code, cause: verdict })
  }
  if (!verdict.ok) {
    const { because, problem, claimedIssuer } = verdict
    return refused(saml, request, { code: because, facts: { problem, claimedIssuer } })
  }

  const checked = check(saml, verdict, open)
  if (!checked.ok) {
    const { because, findings, clockAhead } = checked
    return refused(saml, request, { code: because, findings, clockAhead })
  }
  const flow = open.find(each => each.request === checked.requestId)
  const { assertionId } = checked.subject
  const ids = [
    `assertion ${assertionId}`,
    ...(flow === undefined ? [] : [`request ${flow.request}`]),
  ]
  if (!saml.consumed.consume(ids, checked.until)) {
    return refused(saml, request, { code: 'replay', findings: checked.findings })
  }
  return welcome(saml, request, { verdict, checked, flow, state, relayState })
}

/** Verifies the response in a thread, with the keys of the IdP. */
async function verify(saml: Saml, bytes: Buffer): Promise<ResponseVerdict | WorkerFailure> {
  const { allowSha1 } = saml.config()
  const decryptionKeys = saml.keys.saml().map(pair => pair.privateKey)
  try {
    return await saml.source.withKeys(certificates => {
      const rules = { certificates, decryptionKeys, allowSha1 }
      return saml.verifier.run({ kind: 'response', bytes, rules })
    })
  } catch (error) {
    if (error instanceof WorkerFailure) return error
    throw error
  }
}

function check(saml: Saml, verdict: VerifiedResponse, open: readonly Flow[]): AssertionVerdict {
  const config = saml.config()
  const exact = config.authnContextComparison === 'exact'
  return checkAssertion(
    verdict,
    {
      entityId: config.entityId,
      acsUrl: config.acsUrl,
      idp: saml.source.last?.entityId ?? '',
      requests: new Map(open.map(flow => [flow.request, flow.began])),
      unsolicited: config.idpInitiated,
      skew: config.clockSkew,
      assertionAge: config.assertionAge,
      forceAuthn: config.forceAuthn,
      contexts: exact ? config.authnContext : [],
    },
    saml.clock.now(),
  )
}

async function welcome(
  saml: Saml,
  request: Request,
  arrival: {
    readonly verdict: VerifiedResponse
    readonly checked: CheckedAssertion
    readonly flow: Flow | undefined
    readonly state: LoginState
    readonly relayState: string | undefined
  },
): Promise<Response> {
  const { verdict, checked, flow, state, relayState } = arrival
  const { subject } = checked
  const established = await saml.sessions.establish(subject, request)
  if ('refuse' in established) {
    saml.outcomes.count('session_refused')
    return established.refuse
  }
  saml.outcomes.count('accepted')
  const now = saml.clock.now()
  const ahead = (verdict.assertion.issued?.moment ?? now) - now
  saml.log.info('signed in', {
    request: request.id,
    session: established.session.id,
    subject: established.session.subject,
    assertion: subject.assertionId,
    idp: subject.issuer,
    encrypted: verdict.encrypted,
    client: saml.clientAddress(request),
    clockAheadMs: ahead,
    ...(verdict.assertion.unread.length === 0 ? {} : { unread: verdict.assertion.unread }),
  })
  const kept = flow === undefined ? undefined : keepState(saml, withDone(state, flow, now, ahead))
  const { baseUrl } = saml.config()
  const location =
    flow === undefined
      ? loginAddress(baseUrl, relayedReturn(baseUrl, relayState ?? ''))
      : `${baseUrl}${returnPath}?flow=${encodeURIComponent(flow.id)}`
  const fields = Fields.of(
    ...established.setCookie,
    ['Set-Cookie', ownerCookie(saml, established.session)],
    ['Set-Cookie', kept],
    ['Cache-Control', 'no-store'],
    ['Location', location],
  )
  return { status: 303, fields, content: noContent, facts: { saml: 'accepted' } }
}

/**
 * Where an answer nobody asked for leads: IdPs let a path, or a whole address, be written into its RelayState
 * (saml-profiles-2.0-os section 4.1.5). One of ours is taken, anything else is "/".
 */
function relayedReturn(baseUrl: string, relayState: string): string {
  if (relayState.length > LONGEST_RELAY) return '/'
  const own = relayState.startsWith(`${baseUrl}/`)
  return safeReturn(own ? relayState.slice(baseUrl.length) : relayState)
}

/** saml-bindings-2.0-os section 3.5.3 says 80 bytes; IdPs let more be written. */
const LONGEST_RELAY = 2000

/**
 * An answer that no login of this browser waits for. Someone already signed in is let through (a reload, a second tab). Browsers
 * hold the session cookie back from a post of another site (SameSite=Lax), and careful ones every cookie: so whoever seems to
 * be nobody posts it again from ours, once.
 */
async function withoutLogin(
  saml: Saml,
  request: Request,
  arrival: {
    readonly found: 'state' | 'absent' | 'invalid'
    readonly state: LoginState
    readonly encoded: string
    readonly relayState: string | undefined
  },
): Promise<Response> {
  const { found, state, encoded, relayState } = arrival
  const session = await saml.sessions.read(request)
  if (session !== undefined) {
    const done = state.flows.find(flow => flow.done && flow.id === relayState)
    const query = done === undefined ? '' : `?flow=${encodeURIComponent(done.id)}`
    const location = `${saml.config().baseUrl}${returnPath}${query}`
    return { status: 303, fields: Fields.of(['Location', location]), content: noContent }
  }
  const again = request.target.form === 'origin' && request.target.query === 'again'
  const heldBack = found === 'absent' || (found === 'state' && !(await sentSession(saml, request)))
  if (heldBack && !again && isPlain(encoded) && isPlain(relayState ?? '')) {
    return saml.page({
      template: 'saml-form',
      view: {
        title: 'Signing in',
        label: 'Continue to sign in',
        keep: '',
        action: '/saml/acs?again',
        enctype: 'application/x-www-form-urlencoded',
        fields: [
          { name: 'SAMLResponse', value: encoded },
          ...(relayState === undefined ? [] : [{ name: 'RelayState', value: relayState }]),
        ],
      },
      script: true,
    })
  }
  const codes = {
    state: 'login_unknown',
    absent: 'login_cookie_missing',
    invalid: 'login_cookie_invalid',
  }
  return refused(saml, request, { code: codes[found] })
}

async function sentSession(saml: Saml, request: Request): Promise<boolean> {
  return (await saml.sessions.diagnose(request)).count > 0
}

function isPlain(text: string): boolean {
  return /^[\x20-\x7e\r\n]*$/.test(text)
}
