/**
 * The configuration of one instance as the rest of the service sees it: the values of settings.ts, and values computed from
 * them. Durations are milliseconds, sizes bytes. Which changes a reload cannot apply stands beside each setting
 * (`config/restart.ts`). Pure.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Path } from '../../config/reading.ts'
import { fixedPlaces, waitingSettings, withFixed } from '../../config/restart.ts'
import { AddressSet } from '../../ip.ts'
import { nameIdFormats } from '../../saml/xml/vocabulary.ts'
import { tokenDigest } from '../access/passthrough.ts'
import { tokenScope } from '../access/token-scope.ts'
import { fieldNames, strippedNames } from './field-names.ts'
import type { WholeValues } from './secret-files.ts'
import { accessOf, ruleAttributes, tokenRules } from './setting-access.ts'
import { tokenFormOf } from './setting-identity-token.ts'
import { type SettingValues, settings } from './settings.ts'

export type Config = ReturnType<typeof configOf>

export type SamlConfig = Config['saml']

export type StateConfig = NonNullable<Config['state']>

/** The configuration of an instance out of the values of its file or environment, which have been checked. */
export function configOf(values: WholeValues, instance: string, lineOf?: (path: Path) => number) {
  const { domain, proxy, identity } = values
  const baseUrl = `https://${domain}`
  const configPath = values.configPath ?? standardConfigPath(instance)
  const { attributes, looseNames, stripDomains, groups, groupForm, only } = identity
  const claims = ownClaims(identity)
  const { encoding, fieldSize: limit, rename } = identity
  const names = fieldNames(identity.names)
  const backendCredential = backendCredentialOf(values)
  const identityToken = tokenFormOf(identity, baseUrl)
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
    targetServerName: proxy.targetServerName,
    /** Files of the certificate that the backend is shown, and of its key. */
    targetClient: targetClientOf(proxy),
    /** The field and the file of the credential for the backend; its value is not part of the configuration. */
    backendCredential,
    trustedProxies: proxy.trustedProxies,
    proxyProtocol: proxy.proxyProtocol,
    webSocketOrigins: proxy.webSocketOrigins,
    passthroughPaths: values.passthroughPaths,
    passthroughTokens: values.passthroughTokens.map(token => ({
      name: token.name,
      sha256: token.sha256 ?? tokenDigest(token.token ?? ''),
      expires: token.expires,
      scope: tokenScope(token),
    })),
    /** The rules; undefined when all who are signed in may do everything. */
    access: accessOf(values, index => lineOf?.(['access', index])),
    /** The tokens that people make: the longest life of one, undefined when people make none, and their own rules, which apply besides `access`. */
    tokens: {
      longest: values.tokens.longest,
      access: accessOf(tokenRules(values), index => lineOf?.(['tokens', 'access', index])),
    },
    /** Whether preflights of other origins pass without a session. */
    cors: values.cors,
    /** Whether a person who is refused sees whom the rule lets in. */
    accessTell: values.accessTell,
    configPath,
    saml: {
      ...saml,
      domain,
      baseUrl,
      entityId: `${baseUrl}/saml/metadata`,
      acsUrl: `${baseUrl}/saml/acs`,
      sloUrl: `${baseUrl}/saml/slo`,
      idpMetadata: idpMetadataOf(values),
      /** The proxy by which remote metadata is fetched. */
      idpMetadataProxy: values.idpMetadataProxy,
      idpEntityId: values.idpEntityID,
      idpMetadataCertificate: values.idpMetadataCertificate,
      /**
       * The file that keeps remote metadata between starts. Each URL has a file of its own, so that the metadata of a former
       * identity provider cannot sign users in.
       */
      metadataCacheFile: `${configPath}.idp-metadata-${digestOf(values.idpMetadataURL)}.xml`,
      /** The file that keeps used IDs between starts. */
      usedIdsPath: `${configPath}.used`,
      requestSigning: values.samlRequestSigning,
      loginStatus: values.login.status,
      nameIdFormat: nameIDFormat === 'none' ? undefined : (nameIDFormat ?? nameIdFormats.transient),
      allowSha1: allowSHA1,
      /** Attributes that the log has of each login: with `log.groups` the groups and those the rules of `access` name. */
      loggedAttributes: values.log.groups ? ruleAttributes(values.access) : [],
      /** Whether a login begun here succeeds while the shared store is away. */
      onOutage: values.state.onOutage,
      /** What the rules of `access` need of a login, in their order. */
      ruleLogins: values.access.map(({ login }) => login),
    },
    session: values.session,
    pages: values.pages,
    identity: { claims, looseNames, stripDomains, groups, groupForm, only },
    /** A digest of the settings under `identity`. A session with another digest was made by other settings. */
    identityDigest: createHash('sha256')
      .update(
        JSON.stringify([
          ...[attributes, looseNames, stripDomains, groups, groupForm, only],
          // The digest has no member for an absent file, so that sessions from before this setting existed stay valid.
          ...(rename === undefined ? [] : [rename]),
        ]),
      )
      .digest('base64url')
      .slice(0, 11),
    identityFields: {
      claims,
      encoding,
      limit,
      basicAuth: proxy.useBasicAuth,
      names,
      /** The names of further fields that are removed from requests of clients. */
      stripped: strippedNames(names, {
        credential: backendCredential?.field,
        token: identityToken,
      }),
    },
    groupNames: rename,
    /** The signed identity; undefined when none is sent. */
    identityToken,
    keyOverlap: values.keys.overlap,
    /**
     * The file of keys that the operator distributes and this instance only reads; undefined when the instance makes its keys
     * and keeps them at `configPath`.
     */
    sharedKeys: values.keys.shared ? (values.keys.file ?? configPath) : undefined,
    /** The shared store; undefined when there is none. */
    state: stateOf(values, instance),
    timeouts: values.timeouts,
    limits: values.limits,
    admin: values.admin.listenAddress,
    /** The listener for checks; undefined when no edge asks. */
    forwardAuth: forwardAuthOf(values),
    log: values.log,
  }
}

/** The attributes under `identity.attributes`, in the form of the known ones (config/claims.ts). */
export function ownClaims({ attributes }: SettingValues['identity']) {
  return attributes.map(({ name, from, list }) => {
    const field = `${name.charAt(0).toUpperCase()}${name.slice(1)}`
    return { name, field, list, aliases: from }
  })
}

function stateOf({ state }: WholeValues, instance: string) {
  const { url, user, password, sentinelPassword, certificates, sentinels, onOutage } = state
  if (url === undefined) return undefined
  const secrets = { password, sentinelPassword }
  return { ...url, user, ...secrets, certificates, sentinels, onOutage, instance }
}

/** Both the edge and the address are set, or neither: the check of the settings refuses an address without an edge. */
function forwardAuthOf({ domain, forwardAuth }: WholeValues) {
  const { listenAddress: listen, edge, trustedProxies, edgeSecret, hosts } = forwardAuth
  if (listen === undefined || edge === undefined) return undefined
  return {
    listen,
    edge,
    trusted: AddressSet.fromCidrs(trustedProxies),
    secret: edgeSecret === undefined ? undefined : tokenDigest(edgeSecret),
    hosts: hosts.length === 0 ? [domain] : hosts,
  }
}

/** Both files are set, or neither: the check of the settings refuses one alone. */
function targetClientOf({ targetClientCertificate, targetClientKey }: SettingValues['proxy']) {
  return targetClientCertificate === undefined || targetClientKey === undefined
    ? undefined
    : { certificate: targetClientCertificate, key: targetClientKey }
}

/** Both are set, or neither: the check of the settings refuses one alone. */
function backendCredentialOf({ backendCredential: { field, valueFile } }: WholeValues) {
  return field === undefined || valueFile === undefined ? undefined : { field, file: valueFile }
}

/** Exactly one of the two is set: the check of the settings refuses anything else. */
function idpMetadataOf({ idpMetadataURL: url, idpMetadataFile: path = '' }: SettingValues) {
  return url === undefined ? ({ from: 'file', path } as const) : ({ from: 'url', url } as const)
}

function digestOf(url = ''): string {
  return createHash('sha256').update(url).digest('hex').slice(0, 16)
}

/**
 * The names of changed settings that wait for a restart, as the file spells them: those whose wanted value is not the one in
 * force. `now` is the configuration that was in force until now.
 */
export function needRestart(
  started: Config,
  wanted: Config,
  now: Config = started,
): readonly string[] {
  const names = waitingSettings(fixed, inForce(started, wanted, now), wanted)
  const waits = targetWaits(started, wanted, now)
  return waits ? [...names, 'proxy.targetURL'] : names
}

/**
 * The configuration in force after a reload: the wanted values, but the values of the start where only a restart can change
 * them. Settings that depend on each other change together or not at all.
 */
export function inForce(started: Config, wanted: Config, now: Config = started): Config {
  const { target, targetVerify, targetCertificates, targetServerName, targetClient } = now
  const { backendCredential } = now
  const next = withFixed(fixed, started, wanted)
  const { identityFields } = next
  // The names that are removed have to include the name of the credential that is sent.
  const credential = backendCredential?.field
  const stripped = strippedNames(identityFields.names, { credential, token: next.identityToken })
  const backend = {
    ...{ target, targetVerify, targetCertificates, targetServerName, targetClient },
    ...{ backendCredential, identityFields: { ...identityFields, stripped } },
  }
  return {
    ...next,
    // The connection to the store is opened once. `onOutage` is read at each login.
    state: started.state && {
      ...started.state,
      onOutage: wanted.state?.onOutage ?? started.state.onOutage,
    },
    ...(targetWaits(started, wanted, now) ? backend : {}),
    // The settings that the address was checked with wait for the restart together with it.
    forwardAuth: isDeepStrictEqual(started.forwardAuth?.listen, wanted.forwardAuth?.listen)
      ? next.forwardAuth
      : now.forwardAuth,
  }
}

const fixed = fixedPlaces(settings)

/**
 * Whether another backend is wanted together with another address or name of the gateway. The check that the backend does not
 * lead back here used the new address and name. Those wait for the restart, so the backend waits too.
 */
function targetWaits(started: Config, { listen, domain, target }: Config, now: Config): boolean {
  const moves = !isDeepStrictEqual([listen, domain], [started.listen, started.domain])
  return moves && !isDeepStrictEqual(target, now.target)
}

/** The path of the dynamic configuration when the settings do not name one. */
export function standardConfigPath(instance: string): string {
  return `/var/lib/authproxy/${instance}.json`
}
