/**
 * The SAML room, wired: metadata source, verifier and memory, behind the one interface the gateway sees.
 */
import { X509Certificate } from 'node:crypto'
import type { Milliseconds } from '../../async/clock.ts'
import { OriginClient } from '../../http/client/client.ts'
import { Room } from '../../http/server/gather.ts'
import { isPublicAddress } from '../../ip.ts'
import { StashRoom } from '../form-preservation/kept-forms.ts'
import { lastOwner } from '../form-preservation/owner.ts'
import { takeReplay } from '../form-preservation/resubmission.ts'
import type { SamlParts, SamlReadings, SamlService } from './contract.ts'
import { startLogin } from './login.ts'
import { IdpMetadataSource } from './metadata/idp-metadata-source.ts'
import { Outcomes } from './outcomes.ts'
import { type Saml, safeReturn } from './parts.ts'
import { loginAddress } from './redirect-endpoint.ts'
import { Consumed } from './replay-cache.ts'
import { samlRoutes } from './routes.ts'
import { Verifier } from './worker/verifier.ts'

/** Bytes of all forms that are being read at a time: a hundred of the largest, thousands of the usual. */
const FORMS = 128 * 1024 * 1024

/** What tests put in the place of the real thing. */
export interface SamlDoors {
  /** Fetches the metadata; closed with the service. */
  readonly origin?: OriginClient
  /** Verifies messages; not closed with the service. */
  readonly verifier?: Verifier
}

/** Makes the service. Throws a MetadataFailure when the IdP is not known, not even from the cache. */
export async function createSamlService(
  parts: SamlParts,
  doors: SamlDoors = {},
): Promise<SamlService> {
  const { clock, log, config } = parts
  const origin =
    doors.origin ??
    new OriginClient({ clock, isPublic: isPublicAddress, limits: { perOrigin: 2, free: 2 } })
  const source = await IdpMetadataSource.open({ config, origin, clock, log }).catch(async error => {
    await origin.close()
    throw error
  })
  const verifier = doors.verifier ?? new Verifier({ clock })
  const saml: Saml = {
    ...parts,
    source,
    verifier,
    consumed: new Consumed(clock),
    stashes: new StashRoom(clock, parts.random),
    room: new Room(FORMS),
    outcomes: new Outcomes(),
  }
  const handle = samlRoutes(saml)
  return {
    startLogin: (request, login) => startLogin(saml, request, login),
    loginAddress: returnTo => loginAddress(config().baseUrl, returnTo),
    handle,
    keepsForms: (request, returnTo) =>
      safeReturn(returnTo) === returnTo && lastOwner(saml, request) !== undefined,
    takeReplay: (request, asked) => takeReplay(saml, request, asked),
    problems: () => problemsOf(saml),
    readings: () => readingsOf(saml),
    async close() {
      source.close()
      const closing = doors.verifier === undefined ? verifier.close() : undefined
      await Promise.all([closing, origin.close()])
    },
  }
}

function problemsOf(saml: Saml): readonly string[] {
  const keys = saml.keys.saml().length > 0 ? [] : ['there is no SAML key pair']
  return [...saml.source.problems(), ...keys]
}

function readingsOf(saml: Saml): SamlReadings {
  const { source, keys, outcomes } = saml
  const ends = (source.last?.keys ?? []).map(key => key.ends)
  return {
    metadataFetched: source.fetched,
    metadataValidUntil: source.last?.validUntil,
    idpCertificateEnds: ends.length === 0 ? undefined : Math.max(...ends),
    ownCertificateEnds: certificateEnd(keys.saml()[0]?.certificate),
    outcomes: outcomes.read(),
  }
}

function certificateEnd(pem: string | undefined): Milliseconds | undefined {
  if (pem === undefined) return undefined
  try {
    return Date.parse(new X509Certificate(pem).validTo)
  } catch {
    return undefined
  }
}
