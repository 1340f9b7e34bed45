/**
 * The parser against metadata of real products and federations, when that collection stands beside the checkout. Its manifest
 * says what is to be expected of each document; where we see it otherwise, the reason is here and in docs/decisions.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type IdpMetadata, readIdpMetadata } from '../../../lib/saml/metadata/idp-metadata.ts'

interface Entry {
  readonly file: string
  readonly verdict: string
  readonly idps?: readonly ManifestIdp[]
}

interface ManifestIdp {
  readonly entityID: string
  readonly validUntil: string | null
  readonly wantAuthnRequestsSigned: string | null
  readonly protocols: string
  readonly sso: readonly ManifestEndpoint[]
  readonly slo: readonly ManifestEndpoint[]
  readonly nameIDFormats: readonly string[]
  readonly signingCerts: ReadonlyArray<{ readonly sha256: string }>
}

interface ManifestEndpoint {
  readonly binding: string
  readonly location: string
  readonly responseLocation?: string
}

const directory = join(process.cwd(), '../shared/idp-metadata')

/** Taken by the manifest, refused by us: its only key has 512 bits (docs/decisions/0016-idp-keys.md). */
const weakKey = 'https://idp.protectnetwork.org/protectnetwork-idp'

if (!existsSync(join(directory, 'manifest.json'))) {
  t.test(
    'real metadata',
    {
      skip: `SKIPPED: there is no ${directory}; the parser was not tried on real metadata`,
    },
    async () => undefined,
  )
} else {
  const manifest: readonly Entry[] = JSON.parse(
    readFileSync(join(directory, 'manifest.json'), 'utf8'),
  )
  t.equal(manifest.length, 73)
  for (const entry of manifest) tryDocument(entry)
}

function verdictOn(bytes: Uint8Array, entityId?: string) {
  return readIdpMetadata(bytes, { entityId, certificates: undefined, allowSha1: false })
}

function tryDocument({ file, verdict, idps = [] }: Entry): void {
  t.test(`${file}: ${verdict}`, async t => {
    const bytes = readFileSync(join(directory, file))
    const parsed = verdictOn(bytes)
    if (verdict === 'accept') t.equal(parsed.ok, true)
    else if (verdict === 'reject') t.equal(parsed.ok, false)
    // A document whose only certificate cannot be loaded, or stands in no KeyInfo, can verify nothing: we refuse it at once.
    else if (verdict === 'either') t.match(parsed, { ok: false, because: /no-key$|several-idps$/ })
    else t.match(parsed, { ok: false, because: 'metadata_several-idps' })
    for (const idp of idps) {
      const chosen = verdictOn(bytes, idp.entityID)
      const saml2 = idp.protocols.split(' ').includes('urn:oasis:names:tc:SAML:2.0:protocol')
      const usable = saml2 && usual(idp.sso).length > 0 && idp.signingCerts.length > 0
      t.equal(chosen.ok, usable && idp.entityID !== weakKey, idp.entityID)
      if (chosen.ok) compare(t, chosen.idp, idp)
    }
  })
}

function compare(t: Test, got: IdpMetadata, idp: ManifestIdp): void {
  const certificates = new Set(idp.signingCerts.map(each => each.sha256))
  t.strictSame(new Set(got.keys.map(each => each.fingerprint)), certificates)
  t.strictSame(places(got.singleSignOn), usual(idp.sso))
  t.strictSame(places(got.singleLogout), usual(idp.slo))
  t.equal(got.wantAuthnRequestsSigned, ['true', '1'].includes(idp.wantAuthnRequestsSigned ?? ''))
  if (idp.validUntil !== null) t.equal(got.validUntil, Date.parse(idp.validUntil))
}

function places(endpoints: IdpMetadata['singleSignOn']): readonly string[] {
  return endpoints
    .map(({ binding, location, responseLocation }) => `${binding} ${location} ${responseLocation}`)
    .sort()
}

function usual(endpoints: readonly ManifestEndpoint[]): readonly string[] {
  return endpoints
    .filter(({ binding }) => binding === 'HTTP-Redirect' || binding === 'HTTP-POST')
    .map(({ binding, location, responseLocation }) => {
      return `${binding === 'HTTP-POST' ? 'post' : 'redirect'} ${location} ${responseLocation}`
    })
    .sort()
}
