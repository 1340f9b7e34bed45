/**
 * How the configuration of an instance comes about: a complete environment alone, else its YAML file. Never both.
 */
import { join } from 'node:path'
import {
  type Check,
  type Loaded,
  loadConfigFile,
  type Remark,
  valueAt,
} from '../../config/config-file.ts'
import { checkSettings } from '../../config/settings.ts'
import { tokenDigest } from '../access/passthrough.ts'
import { crossCheck } from './check-config.ts'
import type { Config } from './config.ts'
import { type Environment, nearestVariable, placeOf, readEnvironment } from './environment.ts'
import { type SettingValues, settings } from './settings.ts'

export interface ConfigPlace {
  /** Names the instance: its file, its dynamic file, its log lines. */
  readonly instance: string
  /** The file named outright, in place of `<configDirectory>/<instance>.yaml`. */
  readonly file: string | undefined
  readonly configDirectory: string
  readonly environment: Environment
}

/** The configuration or everything that is wrong with it, and where it came from: a file's name, or `the environment`. */
export type LoadedConfig = Loaded<Config> & {
  readonly from: string
  readonly notes: readonly string[]
}

/** Where the files of instances are looked for. */
export const defaultConfigDirectory = '/etc/authproxy'

/** Reads the configuration; never throws. */
export async function loadConfig(place: ConfigPlace): Promise<LoadedConfig> {
  const set = readEnvironment(place.environment)
  if (set.is === 'complete') {
    const notes = ['the environment is complete and used alone; no file is read']
    return { ...fromEnvironment(set, place.instance), from: 'the environment', notes }
  }
  const file = place.file ?? join(place.configDirectory, `${place.instance}.yaml`)
  const loaded = await loadConfigFile(file, configCheck(place.instance))
  const notes =
    set.is === 'absent'
      ? []
      : [
          `${set.present.join(', ')} ${set.present.length === 1 ? 'is' : 'are'} not used: a complete environment also needs ${set.missing.join(', ')}; ${file} is read alone`,
        ]
  return { ...loaded, from: file, notes }
}

/** What the settings of an instance are checked with, wherever they stand. */
export function configCheck(instance: string): Check<Config> {
  const check = checkSettings(settings)
  return found => {
    const checked = check(found)
    if (!checked.ok) return { ...checked, problems: [...missing(found), ...checked.problems] }
    const { problems, warnings } = crossCheck(checked.value)
    const all = [...missing(found), ...problems]
    const config = all.length > 0 ? undefined : configOf(checked.value, instance)
    return config === undefined
      ? { ok: false, problems: all, warnings }
      : { ok: true, value: config, warnings }
  }
}

function fromEnvironment(
  set: Extract<ReturnType<typeof readEnvironment>, { is: 'complete' }>,
  instance: string,
): Loaded<Config> {
  const checked = configCheck(instance)(set.found)
  const line = ({ path, text }: Remark) => (path.length === 0 ? text : `${placeOf(path)}: ${text}`)
  const unknown = set.unknown.map(name => {
    const near = nearestVariable(name)
    return `${name}: no such setting${near === undefined ? '; unset it' : `; did you mean ${near}?`}`
  })
  const warnings = checked.warnings.map(line)
  if (checked.ok && unknown.length === 0) return { ok: true, value: checked.value, warnings }
  const problems = checked.ok ? [] : checked.problems.map(line)
  return { ok: false, problems: [...unknown, ...problems], warnings }
}

/** What has to be there and is not. */
function missing(found: unknown): Remark[] {
  const remarks: Remark[] = []
  const at = (text: string) => remarks.push({ path: [], at: 'key', text })
  const has = (...path: string[]) => valueAt(found, path) !== undefined
  if (!has('domain')) at('domain not set: name the public host, such as domain: app.example.org')
  if (!has('proxy', 'listenAddress')) {
    at('proxy.listenAddress not set: name an address with a port, such as 127.0.0.1:8080')
  }
  if (!has('proxy', 'targetURL')) {
    at('proxy.targetURL not set: name the backend, such as http://127.0.0.1:3000')
  }
  const sources = [has('idpMetadataURL'), has('idpMetadataFile')].filter(Boolean).length
  if (sources === 0) at('no IdP metadata source set: name idpMetadataURL or idpMetadataFile')
  if (sources === 2) at('two IdP metadata sources set: leave idpMetadataURL or idpMetadataFile')
  return remarks
}

const TRANSIENT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'

function configOf(values: SettingValues, instance: string): Config | undefined {
  const { domain, proxy, identity, saml, admin } = values
  const { listenAddress: listen, targetURL: target } = proxy
  const idpMetadata =
    values.idpMetadataURL !== undefined
      ? ({ from: 'url', url: values.idpMetadataURL } as const)
      : values.idpMetadataFile !== undefined
        ? ({ from: 'file', path: values.idpMetadataFile } as const)
        : undefined
  if (domain === undefined || listen === undefined || target === undefined) return undefined
  if (idpMetadata === undefined) return undefined
  const baseUrl = `https://${domain}`
  const configPath = values.configPath ?? `/var/lib/authproxy/${instance}.json`
  const claims = identity.attributes.map(({ name, from, list }) => ({
    name,
    field: `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
    list,
    aliases: from,
  }))
  return {
    instance,
    domain,
    baseUrl,
    listen,
    target,
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
    configPath,
    saml: {
      domain,
      baseUrl,
      entityId: `${baseUrl}/saml/metadata`,
      acsUrl: `${baseUrl}/saml/acs`,
      sloUrl: `${baseUrl}/saml/slo`,
      idpMetadata,
      idpEntityId: values.idpEntityID,
      idpMetadataCertificate: values.idpMetadataCertificate,
      metadataCacheFile: `${configPath}.idp-metadata.xml`,
      requestSigning: values.samlRequestSigning,
      nameIdFormat: saml.nameIDFormat === 'none' ? undefined : (saml.nameIDFormat ?? TRANSIENT),
      idpInitiated: saml.idpInitiated,
      forceAuthn: saml.forceAuthn,
      authnContext: saml.authnContext,
      authnContextComparison: saml.authnContextComparison,
      clockSkew: saml.clockSkew,
      assertionAge: saml.assertionAge,
      loginTime: saml.loginTime,
      allowSha1: saml.allowSHA1,
      allowUnsignedLogout: saml.allowUnsignedLogout,
      stashLimit: saml.replaySize,
    },
    session: values.session,
    identity: {
      claims,
      looseNames: identity.looseNames,
      groups: identity.groups,
      groupForm: identity.groupForm,
      only: identity.only,
    },
    identityFields: {
      claims,
      encoding: identity.encoding,
      limit: identity.fieldSize,
      basicAuth: proxy.useBasicAuth,
    },
    identityToken: identity.token ? { audience: identity.tokenAudience } : undefined,
    keyOverlap: values.keys.overlap,
    timeouts: values.timeouts,
    limits: values.limits,
    admin: admin.listenAddress,
    log: values.log,
  }
}
