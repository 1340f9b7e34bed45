/**
 * The SAML service wires metadata source, worker threads and memory, and leads each path of SAML to its handler.
 */

import { X509Certificate } from 'node:crypto'
import { attempt } from '../../errors.ts'
import { OriginClient } from '../../http/client/client.ts'
import { singleParent } from '../../http/client/dialling/parents.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { Allowance } from '../../http/server/gather.ts'
import { type Route, router } from '../../http/server/router.ts'
import { isPublicAddress } from '../../ip.ts'
import type { IdpMetadata } from '../../saml/metadata/idp-metadata.ts'
import { spMetadataXml } from '../../saml/metadata/sp-metadata.ts'
import { signElementBehind } from '../../saml/signature/sign.ts'
import {
  publishedCertificates,
  publishedFor,
  type SamlKeyPair,
  signingKey,
} from '../keys/dynamic-config.ts'
import { documentResponse, type OwnDocument } from '../pages/own-document.ts'
import { UnreadAttributes } from '../session/unread-attributes.ts'
import { takeAssertion } from './acs.ts'
import { IdpMetadataSource } from '../idp/metadata-source.ts'
import { KeptForms } from './kept-forms.ts'
import { askAboutForm, type LoginStart, signsRequests, startLogin } from './login.ts'
import { lastOwner } from './cookies.ts'
import {
  decryptionTries,
  type LoginKind,
  loginAddress,
  returnPath,
  type Saml,
  type SamlParts,
  safeReturn,
} from './parts.ts'
import { comeBack } from './redirect-endpoint.ts'
import { openReplayCache, type UsedIds } from './used-answers.ts'
import { type FormSender, type Resubmission, resubmit } from './resubmission.ts'
import { logout } from './slo.ts'
import { loginBounds, logoutBounds, WorkerPool } from '../idp/worker/pool.ts'

/** Moments for the metrics page, since the epoch; undefined when there is none. */
export type SamlReadings = Readonly<ReturnType<typeof readingsOf>>

/** The SAML side of the gateway, made once. */
export type SamlService = Awaited<ReturnType<typeof createSamlService>>

/** The function that makes the service. It throws a Failure when the service cannot start. */
export type CreateSamlService = (parts: SamlParts) => Promise<SamlService>

/** The most bytes of all forms that are read at a time: a hundred of the largest, or thousands of usual ones. */
const FORMS = 128 * 1024 * 1024

/** The parts that tests replace. */
export interface SamlSubstitutes {
  /** Fetches the metadata; closed with the service. */
  readonly origin?: OriginClient
  /** Verify messages; not closed with the service. */
  readonly verifiers?: Saml['verifiers']
  /** Used IDs that several processes share; closed with the service. */
  readonly usedIds?: UsedIds
}

/**
 * Makes the service, which reads `parts.config()` and `parts.keys` again whenever it needs them. Throws a MetadataFailure when the
 * IdP is not known, not even from the cache.
 */
export async function createSamlService(parts: SamlParts, substitutes: SamlSubstitutes = {}) {
  const { clock, log, config } = parts
  const { idpMetadataProxy: parent } = config()
  const origin =
    substitutes.origin ??
    new OriginClient({
      clock,
      isPublic: isPublicAddress,
      limits: { perOrigin: 2, free: 2 },
      parents: parent && singleParent(parent),
    })
  const inUse = ({ entityId }: IdpMetadata) => parts.sessions.useIssuer(entityId)
  const source = await IdpMetadataSource.open({ ...parts, origin, inUse }).catch(async error => {
    await origin.close()
    throw error
  })
  const verifiers = substitutes.verifiers ?? {
    login: new WorkerPool(clock, loginBounds),
    logout: new WorkerPool(clock, logoutBounds),
  }
  const replayCache =
    substitutes.usedIds ?? (await openReplayCache({ path: config().usedIdsPath, clock, log }))
  parts.shared?.refillFrom(replayCache)
  const saml: Saml = {
    ...parts,
    source,
    verifiers,
    beginTries: decryptionTries(parts.shared),
    replayCache,
    forms: new KeptForms(clock, parts.random, parts.shared?.forms),
    unread: new UnreadAttributes(clock),
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
    handle: router(routesOf(saml)),
    /** Whether the sender of a form is known; undefined when a browser cannot come back to its address, so that it is not kept. */
    formSender(request: Request, returnTo: string): FormSender | undefined {
      if (safeReturn(returnTo) !== returnTo) return undefined
      return lastOwner(saml, request) === undefined ? 'unknown' : 'known'
    },
    /** The request for the backend in place of a post of our own page, or the page that says why there is none. */
    resubmit: (resubmission: Resubmission) => resubmit(saml, resubmission),
    /** The problems that keep logins from working now, a sentence each, for readiness; empty when there are none. */
    problems(): readonly string[] {
      const keys = saml.keys.saml().length > 0 ? [] : ['there is no SAML key pair']
      return [...source.problems(), ...keys]
    },
    /** The present problem of the metadata that keeps no login from working, for the administrator. */
    remark: () => source.remark,
    /** Looks whether the metadata file has changed since it was read. Never throws. */
    checkMetadataFile: () => source.checkFile(),
    /** The identity provider in use. */
    idp: () => source.last,
    /** The attributes of the last login that nothing read. */
    unreadAttributes: () => saml.unread.last,
    /** Figures for the metrics page, such as the moment the IdP's newest certificate ends. Quick, never throws. */
    readings: () => readingsOf(saml),
    /** Ends the refresh loop and the worker threads. */
    async close() {
      source.close()
      const own = substitutes.verifiers === undefined ? Object.values(verifiers) : []
      const closing = own.map(verifier => verifier.close())
      await Promise.all([...closing, origin.close(), saml.replayCache.close()])
    },
  }
}

function readingsOf(saml: Saml) {
  const { source, keys } = saml
  const ends = (source.last?.keys ?? []).map(key => key.ends)
  return {
    metadataFetched: source.fetchedAt,
    metadataValidUntil: source.last?.validUntil,
    idpCertificateEnds: ends.length === 0 ? undefined : Math.max(...ends),
    ownCertificateEnds: attempt(() =>
      Date.parse(new X509Certificate(keys.saml()[0]?.certificate ?? '').validTo),
    ),
  }
}

function routesOf(saml: Saml): readonly Route[] {
  const signed = lastSigned()
  const metadata = async (request: Request) =>
    documentResponse(request, await metadataOf(saml, signed))
  const certificate = async (request: Request) => documentResponse(request, certificateOf(saml))
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

async function metadataOf(saml: Saml, signed: ReturnType<typeof lastSigned>): Promise<OwnDocument> {
  const config = saml.config()
  const pairs = saml.keys.saml()
  const now = saml.clock.now()
  const signs = signsRequests(config, saml.source.last)
  const { xml, id } = spMetadataXml(config, publishedCertificates(pairs, now), { signs, now })
  const key = config.signMetadata ? signingKey(pairs, now, publishedFor.saml) : undefined
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

function certificateOf(saml: Saml): OwnDocument {
  const [newest] = saml.keys.saml()
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
