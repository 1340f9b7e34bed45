/**
 * Verifies a message with the keys of the IdP, and once more when the IdP has changed its keys.
 */
import type { Request } from '../../http/message/message.ts'
import { networkOf } from '../../ip.ts'
import type { Refused } from './core/message.ts'
import type { ResponseRules } from './core/verify-response.ts'
import type { IdpMetadata } from './metadata/idp-metadata.ts'
import type { Saml } from './parts.ts'
import type { Refusal } from './refusal-page.ts'
import { type Client, WorkerFailure } from './worker/pool.ts'

/** What `check` answers, or why the message is refused. */
export async function verify<Verified extends { readonly ok: true }>(
  saml: Saml,
  check: (rules: ResponseRules) => Promise<Verified | Refused>,
): Promise<Verified | { readonly ok: false; readonly refusal: Refusal }> {
  const checkWith = (idp: IdpMetadata | undefined) =>
    check({
      certificates: (idp?.keys ?? []).map(key => key.certificate),
      decryptionKeys: saml.keys.saml().map(pair => pair.privateKey),
      allowSha1: saml.config().allowSha1,
    })
  try {
    const { source } = saml
    const used = source.current()
    let verdict = await checkWith(used)
    if (!verdict.ok && verdict.because === 'signature_invalid') {
      if (await source.refreshForUnknownKey(used)) verdict = await checkWith(source.current())
    }
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
export function clientOf(saml: Saml, request: Request, known: boolean): Client {
  return { address: networkOf(saml.clientAddress(request)), known }
}
