/**
 * The configuration of one instance as the rest of the service sees it: the values of settings.ts, and what is computed from
 * them. Durations are milliseconds, sizes bytes.
 */
import { tokenDigest } from '../access/passthrough.ts'
import type { SettingValues } from './settings.ts'

export type Config = ReturnType<typeof configOf>

export type SamlConfig = Config['saml']

const TRANSIENT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'

/** The configuration of an instance out of the values of its file or environment, which have been checked. */
export function configOf(values: SettingValues, instance: string) {
  const { domain, proxy, identity } = values
  const baseUrl = `https://${domain}`
  const configPath = values.configPath ?? `/var/lib/authproxy/${instance}.json`
  const { attributes, looseNames, stripDomains, groups, groupForm, only } = identity
  const claims = attributes.map(({ name, from, list }) => ({
    name,
    field: `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
    list,
    aliases: from,
  }))
  const { encoding, fieldSize: limit } = identity
  const { nameIDFormat, allowSHA1, ...saml } = values.saml
  return {
    instance,
    /** Public host name, with its port when that is not 443. */
    domain,
    baseUrl,
    listen: proxy.listenAddress,
    target: proxy.targetURL,
    targetVerify: !proxy.targetDisableSSLVerify,
    targetCertificates: proxy.targetCertificates,
    trustedProxies: proxy.trustedProxies,
    webSocketOrigins: proxy.webSocketOrigins,
    passthroughPaths: values.passthroughPaths,
    passthroughTokens: values.passthroughTokens.map(({ name, token, sha256, expires }) => ({
      name,
      sha256: sha256 ?? tokenDigest(token ?? ''),
      expires,
    })),
    /** The dynamic configuration file. */
    configPath,
    saml: {
      ...saml,
      domain,
      baseUrl,
      entityId: `${baseUrl}/saml/metadata`,
      acsUrl: `${baseUrl}/saml/acs`,
      sloUrl: `${baseUrl}/saml/slo`,
      idpMetadata: idpMetadataOf(values),
      idpEntityId: values.idpEntityID,
      idpMetadataCertificate: values.idpMetadataCertificate,
      /** Where remote metadata is kept between starts. */
      metadataCacheFile: `${configPath}.idp-metadata.xml`,
      /** Where IDs that were used up are kept between starts. */
      usedIdsFile: `${configPath}.used.json`,
      requestSigning: values.samlRequestSigning,
      nameIdFormat: nameIDFormat === 'none' ? undefined : (nameIDFormat ?? TRANSIENT),
      allowSha1: allowSHA1,
    },
    session: values.session,
    pages: values.pages,
    identity: { claims, looseNames, stripDomains, groups, groupForm, only },
    identityFields: { claims, encoding, limit, basicAuth: proxy.useBasicAuth },
    /** Undefined: no signed identity is sent. Without an audience of its own it is the public origin. */
    identityToken: identity.token ? { audience: identity.tokenAudience } : undefined,
    keyOverlap: values.keys.overlap,
    timeouts: values.timeouts,
    limits: values.limits,
    admin: values.admin.listenAddress,
    log: values.log,
  }
}

type IdpMetadata =
  | { readonly from: 'url'; readonly url: string }
  | { readonly from: 'file'; readonly path: string }

/** One of the two is set: others have been refused. */
function idpMetadataOf({ idpMetadataURL: url, idpMetadataFile }: SettingValues): IdpMetadata {
  return url === undefined ? { from: 'file', path: idpMetadataFile ?? '' } : { from: 'url', url }
}
