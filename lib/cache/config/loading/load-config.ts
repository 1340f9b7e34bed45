/**
 * Loads the configuration. The command line takes precedence over the environment, the environment over the file, and the file over
 * the defaults.
 */
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { LoadResult } from '../../../config/config-file.ts'
import { type Check, type Remark, remarkText } from '../../../config/reading.ts'
import { checkRelations } from '../../../config/relations.ts'
import { checkSettings, type ForeignNames, namesOf, valueAt } from '../../../config/settings.ts'
import { AddressSet } from '../../../ip.ts'
import { isRecord, type JsonObject } from '../../../json.ts'
import { settingsChecks } from '../../features/settings.ts'
import {
  type Config,
  configOf,
  type FileValues,
  namedCacheDirectory,
  nonEmpty,
  type Overrides,
  type UserEnvironment,
} from '../config.ts'
import { checkKnownArchives, type KnownArchive } from '../known-archives.ts'
import { formerSettings, settings } from '../settings.ts'
import { checkRouting } from './check-routing.ts'

/** The file that is read when none is named. It need not exist. */
export const defaultConfigFile = '/etc/cachesvc/cachesvc.yaml'

/**
 * Reads the configuration from `file`. Without one, it reads the file that CACHESVC_CONFIG names, else the default file when that
 * exists, else only the defaults. All problems are in the result; it never throws.
 */
export async function loadConfig(
  file: string | undefined,
  overrides: Overrides,
  surroundings: UserEnvironment,
): Promise<LoadResult<Config> & { readonly file: string | undefined }> {
  const { environment } = surroundings
  const named = file ?? nonEmpty(environment['CACHESVC_CONFIG'])
  const notRead = named === undefined ? foreignVariable(environment) : []
  if (named === undefined && !existsSync(defaultConfigFile)) {
    const loaded = bare(configCheck(overrides, surroundings)({}))
    return { ...loaded, warnings: [...notRead, ...loaded.warnings], file: undefined }
  }
  const path = named ?? defaultConfigFile
  // The YAML parser is loaded only when there is a file.
  const { loadConfigFile } = await import('../../../config/config-file.ts')
  const read = (mirrors?: LoadResult<readonly KnownArchive[]>) => {
    const check = configCheck(overrides, surroundings, mirrors)
    return loadConfigFile(path, found => check(absolutePaths(found, dirname(path))))
  }
  let loaded = await read()
  const mirrors = loaded.ok ? loaded.value.overrides.mirrors : undefined
  if (mirrors !== undefined) loaded = await read(await loadConfigFile(mirrors, checkKnownArchives))
  return { ...loaded, warnings: [...notRead, ...loaded.warnings], file: path }
}

/** A warning about CONFIG, the variable of GoAPTCacher. cachesvc does not read it, because other programs use this name too. */
function foreignVariable({ CONFIG }: UserEnvironment['environment']): readonly string[] {
  if (CONFIG === undefined || !/\.ya?ml$/.test(CONFIG)) return []
  return [`the variable CONFIG is not read; write CACHESVC_CONFIG=${CONFIG} or --config ${CONFIG}`]
}

/** Makes the paths absolute that GoAPTCacher's files may have relative to the directory of the file. */
function absolutePaths(found: unknown, directory: string): unknown {
  if (!isRecord(found)) return found
  const absolute = (path: unknown) =>
    typeof path === 'string' && /^(?!~)[^\0]+$/.test(path) ? resolve(directory, path) : path
  const absoluteOf = (group: JsonObject, ...keys: readonly string[]) => {
    const named = keys.filter(key => key in group).map(key => [key, absolute(group[key])])
    return { ...group, ...Object.fromEntries(named) }
  }
  const { https } = found
  return {
    ...absoluteOf(found, 'cache_directory'),
    ...(isRecord(https) && { https: absoluteOf(https, 'cert', 'key') }),
  }
}

/** The check of a configuration file. `mirrors` has the archives of the file it names; without it the built-in ones count. */
export function configCheck(
  overrides: Overrides,
  surroundings: UserEnvironment,
  mirrors?: LoadResult<readonly KnownArchive[]>,
): Check<Config> {
  const checkFile = checkSettings(settings, foreignNames)
  return found => {
    const { kept, problems, warnings: former } = withoutFormer(found)
    const checked = checkFile(kept)
    if (!checked.ok) return { ...checked, problems: [...problems, ...checked.problems] }
    const related = checkRelations(settings, kept, checked.value)
    const without = configOf(checked.value, overrides, surroundings)
    const value = mirrors?.ok ? { ...without, knownArchives: mirrors.value } : without
    const lines = mirrors?.ok === false ? mirrors.problems : []
    problems.push(
      ...lines.map(line => ({ path: ['overrides', 'mirrors'], at: 'value' as const, text: line })),
    )
    const routing = checkRouting(value)
    problems.push(
      ...related.problems,
      ...routing.problems,
      ...sameListener(checked.value),
      ...settingsChecks.flatMap(check => check(found, checked.value)),
    )
    const warnings = [
      ...former,
      ...checked.warnings,
      ...remarksOn(found, checked.value, surroundings),
      ...routing.warnings,
    ]
    return problems.length > 0 ? { ok: false, problems, warnings } : { ok: true, value, warnings }
  }
}

/** Takes former settings out of a file. An empty one had no effect, so it is only warned about. */
function withoutFormer(found: unknown) {
  const [problems, warnings]: [Remark[], Remark[]] = [[], []]
  let kept = found
  for (const [name, { sentence, refused }] of Object.entries(formerSettings)) {
    const path = name.split('.')
    const value = valueAt(found, path)
    if (value === undefined) continue
    const remarks = refused && value !== '' ? problems : warnings
    remarks.push({ path, at: 'key', text: sentence })
    kept = without(kept, path)
  }
  return { kept, problems, warnings }
}

function without(tree: unknown, [step = '', ...below]: readonly string[]): unknown {
  if (!isRecord(tree)) return tree
  const { [step]: member, ...others } = tree
  return below.length === 0 ? others : { ...others, [step]: without(member, below) }
}

/** Problems with places that are listed twice, because the second listener at one place cannot open. */
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

/** Warnings about values that are valid but may not do what the operator expects. */
function remarksOn(found: unknown, file: FileValues, surroundings: UserEnvironment): Remark[] {
  const remarks: Remark[] = []
  const named = namedCacheDirectory(surroundings)
  if (file.cacheDirectory !== undefined && named !== undefined) {
    const text = `CACHESVC_CACHE_DIR wins over this setting and names ${named}`
    remarks.push({ path: ['cache_directory'], at: 'key', text })
  }
  if (file.timeouts.connect + file.timeouts.fields >= 30_000) {
    const text =
      'connect and fields together reach 30s, after which apt hangs up: lower one of them, or raise Acquire::http::Timeout of the clients'
    remarks.push({ path: ['timeouts'], at: 'key', text })
  }
  if (file.https.prevent && (file.https.intercept || file.https.interceptDomains.length > 0)) {
    const text = 'wins over https.intercept: every CONNECT is refused, no tunnel is opened'
    remarks.push({ path: ['https', 'prevent'], at: 'key', text })
  }
  if (valueAt(found, ['clients']) !== undefined) {
    const text =
      file.clients.length === 0
        ? 'is empty: no client may use the proxy'
        : AddressSet.fromCidrs(file.clients).has('127.0.0.1')
          ? undefined
          : 'replaces the default and leaves this machine itself out: add 127.0.0.0/8, unless apt on this machine should not use the proxy'
    if (text !== undefined) remarks.push({ path: ['clients'], at: 'key', text })
  }
  return remarks
}

/** The outcome of a check when there is no file: its remarks have no line numbers. */
function bare<T>(checked: ReturnType<Check<T>>): LoadResult<T> {
  const lines = (remarks: readonly Remark[]) => remarks.map(remark => remarkText(remark))
  return checked.ok
    ? { ok: true, value: checked.value, warnings: lines(checked.warnings) }
    : { ok: false, problems: lines(checked.problems), warnings: lines(checked.warnings) }
}

/*
 * Names of settings that people know from other caches (apt-cacher-ng, squid, approx, nginx) or guess, each with the setting of
 * cachesvc that it means.
 */

const noPassword = {
  says: 'the pages ask for no password; index.clients names the machines that may read them',
}
const logPlace = { says: 'the log goes to standard output, and with systemd to the journal' }

export const foreignNames: ForeignNames = {
  ...namesOf('cache_directory', 'directory cachedir cachepath cacheroot path storage'),
  ...namesOf('listen_port', 'port httpport serverport proxyport'),
  ...namesOf('listen_address', 'address bind bindaddress bindhost host interface'),
  ...namesOf('retention.size', 'quota size maxsize cachesize maxcachesize totalsize'),
  ...namesOf('retention.size', 'disksize maxdisk disklimit sizelimit'),
  ...namesOf('retention.free', 'minfree freespace'),
  ...namesOf('retention.object_size', 'maxobjectsize maximumobjectsize maxfilesize'),
  ...namesOf('retention.versions', 'keepversions keepextraversions maxversions'),
  ...namesOf('retention.unreferenced', 'exthreshold unreferenceddays expireunreferenced'),
  ...namesOf('limits.memory', 'memory cachemem memorylimit maxmemory'),
  ...namesOf('limits.connections', 'maxconnections maxclients'),
  ...namesOf('expiration.unused_days', 'expire expiry maxage ttl keepdays'),
  ...namesOf('clients', 'allow allowfrom allowedclients allowednetworks acl httpaccess'),
  ...namesOf('domains', 'alloweddomains allowedhosts hosts whitelist allowlist'),
  ...namesOf('private_domains', 'privatehosts internaldomains'),
  ...namesOf('passthrough_domains', 'passthrough passthroughpattern nocache dontcache'),
  ...namesOf('ports', 'allowedports allowuserports safeports'),
  ...namesOf('connect_ports', 'sslports'),
  ...namesOf('parent_proxy', 'proxy upstream upstreamproxy httpproxy cachepeer parent'),
  ...namesOf('archives', 'mirrors backends'),
  ...namesOf('overrides.debian_server', 'debianmirror mirror remapdebrep'),
  ...namesOf('overrides.ubuntu_server', 'ubuntumirror remapuburep'),
  ...namesOf('overrides.mirrors', 'mirrorsfile mirrorlist mirrorlists'),
  ...namesOf('remap', 'rewrite redirect aliases'),
  ...namesOf('offline', 'offlinemode'),
  ...namesOf('suites.keyrings', 'keyring trustedkeys'),
  ...namesOf('freshness.index', 'interval refreshpattern'),
  ...namesOf('timeouts.connect', 'timeout networktimeout connecttimeout'),
  ...namesOf('index.hostnames', 'hostname hostnames servername visiblehostname'),
  ...namesOf('https.intercept', 'sslbump mitm tlsintercept'),
  ...namesOf('log.level', 'loglevel verbose verboselog'),
  ...namesOf('log.access', 'accesslog'),
  ...namesOf(noPassword, 'password adminauth adminpassword username'),
  ...namesOf(logPlace, 'logdir logfile logdirectory'),
}
