/**
 * The SAML room, wired: metadata source, verifier and memory, behind the one interface the gateway sees.
 */
import { X509Certificate } from 'node:crypto'
import type { Milliseconds } from '../../clock.ts'
import { OriginClient } from '../../http/origin.ts'
import { isPublicAddress } from '../../ip.ts'
import { Consumed } from './consumed.ts'
import type { SamlParts, SamlReadings, SamlService } from './contract.ts'
import { IdpMetadataSource } from './idp-metadata-source.ts'
import { startLogin } from './login.ts'
import { Outcomes } from './outcomes.ts'
import { type Saml, safeReturn } from './parts.ts'
import { takeReplay } from './replay.ts'
import { loginAddress } from './return.ts'
import { samlRoutes } from './routes.ts'
import { StashRoom } from './stash.ts'
import { lastOwner } from './stash-owner.ts'
import { Verifier } from './verifier.ts'

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
