/**
 * Checks the metadata of the identity provider, how long that and its certificates are valid, and its clock.
 * The code of the service itself fetches, reads and judges the metadata.
 */
import { day, hour } from '../../../async/clock.ts'
import { explainError } from '../../../errors.ts'
import { OriginFailure } from '../../../http/client/errors.ts'
import { Fields } from '../../../http/message/field.ts'
import { formatAuthority, parseUri } from '../../../http/message/target.ts'
import type { IdpMetadata } from '../../../saml/metadata/idp-metadata.ts'
import { isIssuerUnknown } from '../../../x509/certificate-problem.ts'
import type { Config } from '../../config/config.ts'
import { proxyForMetadata } from '../../config/loading/load-config.ts'
import {
  DevelopmentMetadata,
  fetchMetadata,
  judgeMetadata,
  readMetadata,
} from '../../idp/metadata-source.ts'
import { metadataBounds, WorkerPool } from '../../idp/worker/pool.ts'
import type { ProbeAnswer } from '../../probe/probe.ts'
import { ask, type Outcome, originClient, type Reach } from '../ask.ts'
import {
  type Answer,
  dayOf,
  doubtfulFinding,
  type Finding,
  goodFinding,
  judgeClock,
  judgeEnd,
  wrongFinding,
} from '../check.ts'
import { directProbe, type Examination, oncePerExamination } from '../facts.ts'

/** The metadata in use, if there is any, and the finding about fetching it. */
export const metadata = oncePerExamination(async of => {
  const { saml } = of.config
  const { idpMetadata: source, metadataCacheFile: cache } = saml
  const { clock } = of
  const { signal } = new AbortController()
  const pool = new WorkerPool(clock, metadataBounds)
  const judged = async (bytes: Uint8Array, from: string) =>
    judgeMetadata(bytes, from, { config: saml, now: clock.now(), pool })
  const from = source.from === 'file' ? source.path : source.url
  let problem: string
  let look = `open idpMetadataURL from this machine${byProxy(of.config, process.env)}`
  let rule = '; it has to answer 200, because redirects are not followed'
  let put =
    'get the metadata from the administrators of the identity provider, put it there, readable for the service user, and restart'
  let came = false
  try {
    const origin = originClient(of, await reach(of))
    const fetched = async () => (await fetchMetadata(from, { origin, clock, signal }))?.bytes
    const bytes = source.from === 'file' ? await readMetadata(from) : await fetched()
    // A server answers 304 only to a conditional request, and this one is not conditional.
    if (bytes === undefined) throw new Error(`${from} answered 304`)
    came = true
    const idp = await judged(bytes, from)
    return { idp, finding: goodFinding(`${from}${throughProxy(of.config)}: ${inShort(idp)}`) }
  } catch (error) {
    problem = explainError(error)
    if (ofUnknownIssuer(error)) look = nameAuthority(of.config)
    if (isAlone(error)) look = `${INTERMEDIATE}; ${look}`
    if (came) {
      look =
        'the address answers, and this document cannot be used: set idpMetadataURL to the address of the metadata of your identity provider, or have its administrators fix the document'
      rule = ''
    }
    if (error instanceof DevelopmentMetadata) {
      put =
        'to try authproxy with it, set domain: app.localhost; to let users in, put the metadata of your identity provider there; then restart'
      look =
        'to try authproxy with it, set domain: app.localhost; to let users in, set idpMetadataURL to the address of the metadata of your identity provider; then restart'
    }
  }
  if (source.from === 'file') return { idp: undefined, finding: wrongFinding(problem, put) }
  try {
    const idp = await judged(await readMetadata(cache), cache)
    const mend = `the metadata fetched last is used, ${untilOf(idp)}; ${look}`
    return { idp, finding: doubtfulFinding(problem, mend) }
  } catch {
    const mend = `logins fail, and there is no usable copy of the metadata fetched last: ${look}${rule}`
    return { idp: undefined, finding: wrongFinding(problem, mend) }
  }
})

/** The reach for servers of the identity provider: the same as for the metadata. */
const reach = oncePerExamination(async ({ config }): Promise<Reach | undefined> => {
  const { idpMetadataProxy: parent } = config.saml
  return parent && { parent }
})

function throughProxy({ saml: { idpMetadata, idpMetadataProxy: parent } }: Config): string {
  if (parent === undefined || idpMetadata.from === 'file') return ''
  return ` by the proxy ${formatAuthority(parent)}`
}

/** How to fetch the metadata as the service does: curl takes the proxies of the environment, the service only that of its setting. */
function byProxy({ saml }: Config, environment: NodeJS.ProcessEnv): string {
  const { idpMetadata, idpMetadataProxy: parent } = saml
  if (parent !== undefined) return ` by its proxy: curl --proxy http://${formatAuthority(parent)}`
  const named = proxyForMetadata(idpMetadata, environment)
  if (named === undefined) return ''
  return `, and without the proxy in ${named.name}, which authproxy does not use: curl --noproxy "*"; where only that proxy leads to the identity provider, set idpMetadataProxy: ${named.url}`
}

/** Whether the certificate of the metadata's address was refused only because its issuer is not known here. */
function ofUnknownIssuer(error: unknown): boolean {
  const reason = error instanceof OriginFailure ? String(error.facts['reason']) : ''
  return isIssuerUnknown(reason) || reason === 'DEPTH_ZERO_SELF_SIGNED_CERT'
}

/** Whether the server sent its own certificate alone, whose issuer is not known here. */
function isAlone(error: unknown): boolean {
  return (
    error instanceof OriginFailure && error.facts['reason'] === 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'
  )
}

const INTERMEDIATE =
  'the server sends its own certificate and no other. Most likely it does not send its intermediate certificate, which browsers fetch by themselves: its administrators have to send the whole chain; until then put the intermediate certificate into the file of NODE_EXTRA_CA_CERTS'

function nameAuthority({ instance }: Config): string {
  return `if your own authority issued the certificate, name the authority's file: sudo systemctl edit authproxy@${instance}, [Service] Environment=NODE_EXTRA_CA_CERTS=/etc/ssl/certs/my-ca.pem, and set the same variable for this command; or save the document and set idpMetadataFile`
}

function inShort(idp: IdpMetadata): string {
  const keys = `${idp.keys.length} signing ${idp.keys.length === 1 ? 'key' : 'keys'}`
  const logout = idp.singleLogout.length === 0 ? ', no single logout' : ''
  return `${idp.entityId}, ${keys}${logout}, ${untilOf(idp)}`
}

function untilOf({ validUntil }: IdpMetadata): string {
  return validUntil === undefined ? 'valid for ever' : `valid until ${dayOf(validUntil)}`
}

export async function availability(of: Examination): Promise<Answer> {
  return (await metadata(of)).finding
}

/** An answer about the identity provider, once its metadata is known. */
export type IdpAnswer = (of: Examination, idp: IdpMetadata) => Answer | Promise<Answer>

/** Warns before the metadata ends. A URL is fetched every half hour, so a day is enough there; a file has to be replaced by hand. */
export function validity({ config, clock }: Examination, { validUntil }: IdpMetadata): Answer {
  const fetched = config.saml.idpMetadata.from === 'url'
  const left = (validUntil ?? Number.POSITIVE_INFINITY) - clock.now()
  if (left >= (fetched ? 12 * hour : 30 * day)) return []
  const hours = Math.floor(left / hour)
  return doubtfulFinding(
    hours < 72 ? `in ${hours} h` : `in ${Math.floor(hours / 24)} days`,
    fetched
      ? 'the identity provider has to publish a later validUntil by then; logins fail after it'
      : 'replace the file with newer metadata and restart; logins fail after it',
  )
}

/** Compares the metadata read here with what the service uses: a file is read at its start alone. */
export async function inForce(of: Examination, idp: IdpMetadata): Promise<Answer> {
  const used = (await directProbe(of)).answer
  return used === undefined ? undefined : judgeInForce(of.config, used, idp)
}

/** Judges what the service uses; an earlier version does not tell. */
export function judgeInForce(
  { instance, saml }: Config,
  used: Pick<ProbeAnswer, 'idp' | 'idpKeys'>,
  idp: Pick<IdpMetadata, 'entityId' | 'keys'>,
): Answer {
  if (used.idp === '') return []
  const isFile = saml.idpMetadata.from === 'file'
  const mend = isFile
    ? `the service reads idpMetadataFile at its start: systemctl restart authproxy@${instance}`
    : `the service asks again within half an hour; systemctl restart authproxy@${instance} has it ask now`
  const finding = isFile ? wrongFinding : doubtfulFinding
  if (used.idp !== idp.entityId) {
    return finding(`the service uses that of ${used.idp}, not of ${idp.entityId}`, mend)
  }
  const keys = idp.keys.map(({ fingerprint }) => fingerprint)
  const missing = keys.filter(key => !used.idpKeys.includes(key))
  if (missing.length === 0) return goodFinding('the service uses these signing keys')
  const named = missing.map(key => key.slice(0, 16)).join(', ')
  return finding(
    `the service does not know ${missing.length} of the ${keys.length} signing keys: ${named}`,
    `${mend}; answers that are signed with them are refused`,
  )
}

export function details(_: Examination, { warnings }: IdpMetadata): Answer {
  const mend = 'tell the administrators of the identity provider; the rest is used'
  return warnings.map(warning => doubtfulFinding(warning, mend))
}

/** The service does not enforce the end of these certificates, but it announces that the keys will change. */
export function certificates({ config, clock }: Examination, { keys }: IdpMetadata): Finding {
  const mend =
    config.saml.idpMetadata.from === 'url'
      ? 'the service takes the new one from idpMetadataURL as soon as it is published there'
      : 'when the identity provider changes it, logins fail until idpMetadataFile is replaced and the service restarted; with idpMetadataURL the service follows by itself'
  const last = Math.max(...keys.map(({ ends }) => ends))
  const { state, found } = judgeEnd(last, { now: clock.now(), warnWithin: 30 * day, mend })
  const text = `${keys.length === 1 ? 'one' : keys.length}, the last ${found}`
  if (state === 'right') return goodFinding(text)
  return doubtfulFinding(state === 'wrong' ? `${text}; it is used all the same` : text, mend)
}

export async function clock(of: Examination, { singleSignOn }: IdpMetadata): Promise<Answer> {
  const uri = parseUri(singleSignOn[0]?.location ?? '')
  if ('problem' in uri) return undefined
  // The query is left out, and with it the AuthnRequest, so this does not start a login.
  const { query: _, ...place } = uri
  const fields = Fields.of(['Accept', '*/*'])
  const question = { uri: place, method: 'HEAD', fields } as const
  return judgeIdpClock(of.config, await ask(of, question, await reach(of)))
}

export function judgeIdpClock({ saml }: Config, outcome: Outcome): Finding {
  if (!outcome.ok) {
    return doubtfulFinding(
      `its sign-on address does not answer this machine: ${outcome.why}`,
      'browsers have to reach it, this machine need not; compare the clocks by hand: date -u',
    )
  }
  return judgeClock(outcome, {
    doubtful: saml.clockSkew / 3,
    wrong: saml.clockSkew,
    mend: `synchronise the clocks (NTP): from ${saml.clockSkew / 1000} s on (saml.clockSkew) every login is refused`,
  })
}
