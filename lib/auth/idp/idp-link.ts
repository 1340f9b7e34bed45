/**
 * Verifies a message with the keys of the IdP. A signature by none of them may mean that the IdP has changed its keys: then its
 * metadata is asked for anew.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Request } from '../../http/message/message.ts'
import { networkOf } from '../../ip.ts'
import type { ResponseRules } from '../../saml/response/verify-response.ts'
import { type RefusedMessage, responseLimits } from '../../saml/xml/message.ts'
import type { Saml } from '../login/parts.ts'
import type { Refusal } from '../login/refusal-page.ts'
import { type Client, WorkerFailure } from './worker/pool.ts'

/** Checks a message with these keys. */
type Check<Verified> = (rules: ResponseRules) => Promise<Verified | RefusedMessage>
type NotVerified = { readonly ok: false; readonly refusal: Refusal }

/**
 * The result of `check`, or the reason why the message is refused. Waits for new metadata of the IdP and checks once more when
 * the signature is by an unknown key; nothing in the message may have been decrypted before that.
 */
export async function verify<Verified extends { readonly ok: true }>(
  saml: Saml,
  check: Check<Verified>,
): Promise<Verified | NotVerified> {
  const used = saml.source.current()
  const verdict = await checkNow(saml, check)
  if (verdict.ok || verdict.refusal.code !== 'signature_invalid') return verdict
  const refresh = saml.source.refreshForUnknownKey(used)
  const isNew = refresh && (await resultInTime(refresh, saml.clock, LONGEST_WAIT))
  return isNew === true ? checkNow(saml, check) : verdict
}

/** The time a message waits for new metadata of the IdP. Anyone can send one with a wrong signature. */
const LONGEST_WAIT: Milliseconds = 5000

/**
 * Verifies the answer to a login, and never waits: how long an answer takes must not tell whether it was decrypted. `renewing` says that
 * the metadata of the IdP is asked for anew, or has been meanwhile, so that the login may succeed when it begins again. It
 * says so of each encrypted answer alike, whether it was decrypted or not.
 */
export async function verifyLogin(saml: Saml, encoded: string, client: Client) {
  const used = saml.source.current()
  const tries = saml.beginTries()
  const verdict = await checkNow(saml, rules =>
    saml.verifiers.login.run({ kind: 'response', encoded, rules }, client, tries.mayDecrypt),
  )
  if (verdict.ok) {
    tries.verified()
    return verdict
  }
  const { code } = verdict.refusal
  const doubtful = code === 'signature_invalid' || code === 'encryption_tries' || tries.asked()
  return { ...verdict, renewing: doubtful && saml.source.refreshForUnknownKey(used) !== undefined }
}

async function checkNow<Verified extends { readonly ok: true }>(
  saml: Saml,
  check: Check<Verified>,
): Promise<Verified | NotVerified> {
  const idp = saml.source.current()
  try {
    const verdict = await check({
      certificates: (idp?.keys ?? []).map(key => key.certificate),
      decryptionKeys: saml.keys.saml().map(pair => pair.privateKey),
      limits: responseLimits(saml.config().responseSize),
      allowSha1: saml.config().allowSha1,
    })
    if (verdict.ok) return verdict
    const { ok, because: code, finding, ...facts } = verdict
    const findings = finding === undefined ? [] : [{ ...finding, ok }]
    return { ok, refusal: { code, facts, findings } }
  } catch (error) {
    if (!(error instanceof WorkerFailure)) throw error
    return { ok: false, refusal: { code: error.code, cause: error } }
  }
}

/** The client that sent a message; `known` says whether it has begun a login at this gateway. */
export function clientOf(saml: Saml, request: Request, hasBegunLogin: boolean): Client {
  return { address: networkOf(saml.clientAddress(request)), hasBegunLogin }
}
