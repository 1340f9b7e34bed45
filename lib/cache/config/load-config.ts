/**
 * How the configuration comes about: command line over environment over file over defaults.
 */
import {
  type Check,
  type Loaded,
  loadConfigFile,
  type Remark,
  valueAt,
} from '../../config/config-file.ts'
import { checkSettings } from '../../config/settings.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { checkRouting } from './check-routing.ts'
import type { Config, HttpsConfig } from './config.ts'
import {
  defaultCacheDirectory,
  exists,
  namedCacheDirectory,
  nonEmpty,
  type Surroundings,
} from './environment.ts'
import { defaultPort, type FileValues, notAvailable, settings, withoutEffect } from './settings.ts'

/** What the command line says over the file. */
export interface Overrides {
  readonly cacheDirectory?: string | undefined
  readonly listen?: readonly ListenAddress[] | undefined
}

/** The file read when none is named, and then only if it is there. */
export const defaultConfigFile = '/etc/cachesvc/cachesvc.yaml'

/**
 * The configuration from `file`; without one from CACHESVC_CONFIG, from the default file when it exists, or from the defaults
 * alone. Every problem is in the answer; nothing is thrown.
 */
export async function loadConfig(
  file: string | undefined,
  overrides: Overrides,
  surroundings: Surroundings,
): Promise<Loaded<Config> & { readonly file: string | undefined }> {
  const check = configCheck(overrides, surroundings)
  const named = file ?? nonEmpty(surroundings.environment['CACHESVC_CONFIG'])
  if (named === undefined && !exists(defaultConfigFile)) {
    return { ...bare(check({})), file: undefined }
  }
  const path = named ?? defaultConfigFile
  return { ...(await loadConfigFile(path, check)), file: path }
}

/** The defaults alone, as without a configuration file. */
export function defaultConfig(overrides: Overrides, surroundings: Surroundings): Config {
  const loaded = bare(configCheck(overrides, surroundings)({}))
  if (loaded.ok) return loaded.value
  throw new TypeError(`the defaults are wrong: ${loaded.problems.join('; ')}`)
}

/** What a configuration file is checked with. */
export function configCheck(overrides: Overrides, surroundings: Surroundings): Check<Config> {
  const checkFile = checkSettings(settings)
  return found => {
    const checked = checkFile(found)
    const problems = [...unavailable(found), ...listenTwice(found)]
    if (!checked.ok) return { ...checked, problems: [...problems, ...checked.problems] }
    const value = configOf(checked.value, overrides, surroundings)
    const routing = checkRouting(checked.value.remap, value)
    problems.push(...routing.problems, ...sameListener(checked.value))
    const warnings = [
      ...checked.warnings,
      ...remarksOn(found, checked.value, surroundings),
      ...routing.warnings,
    ]
    return problems.length > 0 ? { ok: false, problems, warnings } : { ok: true, value, warnings }
  }
}

function configOf(file: FileValues, overrides: Overrides, surroundings: Surroundings): Config {
  return {
    cacheDirectory:
      overrides.cacheDirectory ??
      namedCacheDirectory(surroundings) ??
      file.cache_directory ??
      defaultCacheDirectory(surroundings),
    listen: listenOf(file, overrides.listen),
    listenSecure:
      file.listen_port_secure === 0
        ? undefined
        : { address: file.listen_address, port: file.listen_port_secure },
    domains: file.domains,
    passthroughDomains: file.passthrough_domains,
    clients: file.clients,
    ports: file.ports,
    connectPorts: file.connect_ports,
    parentProxy: file.parent_proxy,
    remap: file.remap.flatMap(({ from, to }) =>
      from === undefined || to === undefined ? [] : [{ from, to }],
    ),
    overrides: {
      ubuntuServer: file.overrides.ubuntu_server,
      debianServer: file.overrides.debian_server,
    },
    https: httpsOf(file),
    index: file.index,
    expiration: { unusedDays: file.expiration.unused_days },
    verification: file.verification,
    freshness: file.freshness,
    timeouts: {
      connect: file.timeouts.connect,
      fields: file.timeouts.fields,
      content: file.timeouts.content,
      revalidation: file.timeouts.revalidation,
      tunnel: file.timeouts.tunnel,
      clientHead: file.timeouts.client_head,
      clientIdle: file.timeouts.client_idle,
      clientStalled: file.timeouts.client_stalled,
      drain: file.timeouts.drain,
    },
    limits: {
      head: file.limits.head,
      connections: file.limits.connections,
      memory: file.limits.memory,
      originConnections: file.limits.origin_connections,
    },
    log: file.log,
  }
}

function listenOf(file: FileValues, override: Overrides['listen']): readonly ListenAddress[] {
  if (override !== undefined && override.length > 0) return override
  if (file.listen !== undefined && file.listen.length > 0) return file.listen
  const ports = new Set([file.listen_port ?? defaultPort, ...file.alternative_ports])
  return [...ports].map(port => ({ address: file.listen_address, port }))
}

function httpsOf({ https }: FileValues): HttpsConfig {
  return {
    prevent: https.prevent,
    intercept: https.intercept,
    interceptDomains: https.intercept_domains,
    tunnelDomains: https.tunnel_domains,
    refuseDomains: https.refuse_domains,
    cert: https.cert,
    key: https.key,
    password: https.password,
    certificateDomain: https.certificate_domain,
    aiaAddress: https.aia_address,
    enableCrl: https.enable_crl,
    originCa: https.origin_ca,
    rememberDistrust: https.remember_distrust,
  }
}

/** What stands in the file and means something this version cannot do. */
function unavailable(found: unknown): Remark[] {
  const defaults = settings.parse({})
  return notAvailable.flatMap(name => {
    const path = name.split('.')
    const value = valueAt(found, path)
    const unset =
      value === undefined || JSON.stringify(value) === JSON.stringify(valueAt(defaults, path))
    if (unset || value === 'no' || value === 'off') return []
    return [
      { path, at: 'key', text: 'not available in this version; remove it or leave its default' },
    ]
  })
}

/** `listen` says it all: what it is made from otherwise cannot stand beside it. */
function listenTwice(found: unknown): Remark[] {
  if (valueAt(found, ['listen']) === undefined) return []
  return ['listen_address', 'listen_port', 'alternative_ports']
    .filter(key => valueAt(found, [key]) !== undefined)
    .map(key => ({ path: [key], at: 'key', text: 'not together with listen; move it there' }))
}

/** The second of two listeners at one place cannot open. */
function sameListener({ listen = [] }: FileValues): Remark[] {
  return listen.flatMap((place, index) => {
    const first = listen.findIndex(
      ({ address, port }) => port !== 0 && port === place.port && address === place.address,
    )
    return first === -1 || first === index
      ? []
      : [{ path: ['listen', index], at: 'value', text: `the same as listen[${first}]; remove one` }]
  })
}

/** What is right and still worth a word. */
function remarksOn(found: unknown, file: FileValues, surroundings: Surroundings): Remark[] {
  const remarks: Remark[] = []
  for (const [name, text] of Object.entries(withoutEffect)) {
    const path = name.split('.')
    if (valueAt(file, path) === true) remarks.push({ path, at: 'key', text })
  }
  const named = namedCacheDirectory(surroundings)
  if (file.cache_directory !== undefined && named !== undefined) {
    const text = `CACHESVC_CACHE_DIR wins over this setting and names ${named}`
    remarks.push({ path: ['cache_directory'], at: 'key', text })
  }
  if (file.timeouts.connect + file.timeouts.fields >= 30_000) {
    const text =
      'connect and fields together reach 30s, after which apt hangs up; lower one of them'
    remarks.push({ path: ['timeouts'], at: 'key', text })
  }
  if (file.https.prevent && (file.https.intercept || file.https.intercept_domains.length > 0)) {
    const text = 'wins over https.intercept: every CONNECT is refused, no tunnel is opened'
    remarks.push({ path: ['https', 'prevent'], at: 'key', text })
  }
  if (valueAt(found, ['clients']) !== undefined && file.clients.length === 0) {
    remarks.push({ path: ['clients'], at: 'value', text: 'is empty: nobody may use the proxy' })
  }
  return remarks
}

/** A check's outcome as lines, when there is no file to point into. */
function bare<T>(checked: ReturnType<Check<T>>): Loaded<T> {
  const lines = (remarks: readonly Remark[]) => remarks.map(remark => remark.text)
  return checked.ok
    ? { ok: true, value: checked.value, warnings: lines(checked.warnings) }
    : { ok: false, problems: lines(checked.problems), warnings: lines(checked.warnings) }
}
