/**
 * The SAML service wires metadata source, worker threads and memory, and leads each path of SAML to its handler.
 */

import { X509Certificate } from 'node:crypto'
import { attempt } from '../../errors.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { Allowance } from '../../http/server/gather.ts'
import { type Route, router } from '../../http/server/router.ts'
import type { IdpMetadata } from '../../saml/metadata/idp-metadata.ts'
import { spMetadataXml } from '../../saml/metadata/sp-metadata.ts'
import { signElementBehind } from '../../saml/signature/sign.ts'
import { IdpLink, type IdpSubstitutes } from '../idp/idp-link.ts'
import { publishedCertificates, type SamlKeyPair } from '../keys/dynamic-config.ts'
import { documentResponse, type OwnDocument } from '../pages/own-document.ts'
import { takeAssertion } from './acs.ts'
import { type LoginKind, loginAddress, returnPath, safeReturn } from './addresses.ts'
import { KeptForms } from './kept-forms.ts'
import { askAboutForm, type LoginStart, startLogin } from './login.ts'
import type { Saml, SamlParts } from './parts.ts'
import { comeBack } from './redirect-endpoint.ts'
import { type FormSender, type Resubmission, resubmit } from './resubmission.ts'
import { logout } from './slo.ts'
import { openUsedIds, UsedAnswers, type UsedIds } from './used-answers.ts'

/** Moments for the metrics page, since the epoch; undefined when there is none. */
export type SamlReadings = Readonly<ReturnType<typeof readingsOf>>

/** The SAML side of the gateway, made once. */
export type SamlService = Awaited<ReturnType<typeof createSamlService>>

/** The function that makes the service. It throws a Failure when the service cannot start. */
export type CreateSamlService = (parts: SamlParts) => Promise<SamlService>

/** The most bytes of all forms that are read at a time: a hundred of the largest, or thousands of usual ones. */
const FORMS = 128 * 1024 * 1024

/** The parts that tests replace. */
export interface SamlSubstitutes extends IdpSubstitutes {
  /** Used IDs that several processes share; closed with the service. */
  readonly usedIds?: UsedIds
}

/**
 * Makes the service, which reads `parts.config()` and `parts.keys` again whenever it needs them. Throws a MetadataFailure when the
 * IdP is not known, not even from the cache.
 */
export async function createSamlService(parts: SamlParts, substitutes: SamlSubstitutes = {}) {
  const { clock, log, config, keys, shared, ...common } = parts
  const inUse = ({ entityId }: IdpMetadata) => parts.sessions.useIssuer(entityId)
  const idp = await IdpLink.open({ ...parts, inUse }, substitutes)
  const usedIds =
    substitutes.usedIds ?? (await openUsedIds({ path: config().usedIdsPath, clock, log }))
  const used = new UsedAnswers(usedIds, shared)
  const saml: Saml = {
    ...{ ...common, clock, log, config, idp, used },
    forms: new KeptForms(clock, parts.random, shared?.forms),
    room: new Allowance(FORMS),
  }
  return {
    /**
     * Begins a login for a navigation. `returnTo` is path and query as they stood in the request line, bytes untouched; it is
     * checked again before a browser is sent there.
     */
    startLogin: (request: Request, login: LoginStart) => startLogin(saml, request, login),
    /** Asks the person whether to send a form that a page of another site has posted. */
    askAboutForm: (request: Request, posted: Parameters<typeof askAboutForm>[2]) =>
      askAboutForm(saml, request, posted),
    /**
     * The address a script may send its user to when a request of its own has no session: a navigation there begins a login
     * and comes back to `returnTo`. Making it leaves no state behind.
     */
    loginAddress: (returnTo: string, how?: LoginKind) =>
      loginAddress(config().baseUrl, returnTo, how),
    /** Answers the paths of SAML; undefined for every other path. `path` is the exact path of the target, without query. */
    handle: router(routesOf(saml, keys)),
    /** Whether the sender of a form is known; undefined when a browser cannot come back to its address, so that it is not kept. */
    formSender(request: Request, returnTo: string): FormSender | undefined {
      if (safeReturn(returnTo) !== returnTo) return undefined
      return saml.cookies(request).owner === undefined ? 'unknown' : 'known'
    },
    /** The request for the backend instead of a post of our own page, or the page that says why there is none. */
    resubmit: (resubmission: Resubmission) => resubmit(saml, resubmission),
    /** The problems that keep logins from working now, a sentence each, for readiness; empty when there are none. */
    problems(): readonly string[] {
      const pairs = keys.saml().length > 0 ? [] : ['there is no SAML key pair']
      return [...idp.metadata.problems(), ...pairs]
    },
    /** The present problem of the metadata that keeps no login from working, for the administrator. */
    remark: () => idp.metadata.remark,
    /** Looks whether the metadata file has changed since it was read. Never throws. */
    checkMetadataFile: () => idp.metadata.checkFile(),
    /** The identity provider in use. */
    idp: () => idp.metadata.last,
    /** The attributes of the last login that nothing read. */
    unreadAttributes: () => parts.sessions.lastUnread,
    /** Figures for the metrics page, such as the moment the IdP's newest certificate ends. Quick, never throws. */
    readings: () => readingsOf(idp, keys),
    /** Ends the refresh loop and the worker threads. */
    async close() {
      await Promise.all([idp.close(), used.close()])
    },
  }
}

type OwnKeys = SamlParts['keys']

function readingsOf({ metadata }: IdpLink, keys: OwnKeys) {
  const ends = (metadata.last?.keys ?? []).map(key => key.ends)
  return {
    metadataFetched: metadata.fetchedAt,
    metadataValidUntil: metadata.last?.validUntil,
    idpCertificateEnds: ends.length === 0 ? undefined : Math.max(...ends),
    ownCertificateEnds: attempt(() =>
      Date.parse(new X509Certificate(keys.saml()[0]?.certificate ?? '').validTo),
    ),
  }
}

function routesOf(saml: Saml, keys: OwnKeys): readonly Route[] {
  const signed = lastSigned()
  const metadata = async (request: Request) =>
    documentResponse(request, await metadataOf(saml, keys, signed))
  const certificate = async (request: Request) => documentResponse(request, certificateOf(keys))
  return [
    { method: 'GET', path: '/saml/metadata.xml', handle: metadata },
    { method: 'GET', path: '/saml/metadata', handle: metadata },
    { method: 'GET', path: '/saml/certificate.crt', handle: certificate },
    { method: 'POST', path: '/saml/acs', handle: request => takeAssertion(saml, request) },
    { method: 'GET', path: '/saml/acs', handle: async request => notAPage(saml, request) },
    { method: 'GET', path: '/saml/slo', handle: request => logout(saml, request) },
    { method: 'POST', path: '/saml/slo', handle: request => logout(saml, request) },
    { method: 'GET', path: returnPath, handle: request => comeBack(saml, request) },
  ]
}

async function metadataOf(
  { config, clock, idp }: Saml,
  keys: OwnKeys,
  signed: ReturnType<typeof lastSigned>,
): Promise<OwnDocument> {
  const now = clock.now()
  const published = publishedCertificates(keys.saml(), now)
  const { xml, id } = spMetadataXml(config(), published, { signs: idp.signsRequests, now })
  const key = config().signMetadata ? idp.signingKey : undefined
  return {
    type: 'application/samlmetadata+xml',
    bytes: Buffer.from(key === undefined ? xml : await signed(xml, { id, key })),
    cacheControl: 'no-cache',
  }
}

/** Signs the metadata. The last signed document is kept, since any client may ask and a signature costs a millisecond. */
function lastSigned() {
  let last:
    | { readonly xml: string; readonly kid: string; readonly signed: Promise<string> }
    | undefined
  return (xml: string, by: { readonly id: string; readonly key: SamlKeyPair }) => {
    const { kid } = by.key
    if (last?.xml !== xml || last.kid !== kid) {
      const signed = signElementBehind(xml, by)
      last = { xml, kid, signed }
      signed.catch(() => {
        last = undefined
      })
    }
    return last.signed
  }
}

function certificateOf(keys: OwnKeys): OwnDocument {
  const [newest] = keys.saml()
  return {
    type: 'application/x-pem-file',
    bytes: Buffer.from(newest?.certificate ?? ''),
    disposition: 'attachment; filename="certificate.crt"',
    cacheControl: 'no-cache',
  }
}

/** The person reloaded the page, or followed a bookmark. */
function notAPage({ failurePage }: Saml, request: Request): Response {
  return failurePage({ request, code: 'acs_get', fields: Fields.of(['Allow', 'POST']) })
}
