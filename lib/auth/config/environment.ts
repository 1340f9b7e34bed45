/**
 * Configuration from the environment: a variable for every setting, used alone when everything required is there and not at
 * all otherwise. Pure.
 */
import { isIP } from 'node:net'
import { keyPath, nearestName } from '../../config/reading.ts'
import { manualPages } from '../../config/settings.ts'
import { isRecord } from '../../json.ts'
import { settings } from './settings.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const PREFIX = 'AUTHPROXY_'
/** The one token of the environment, or its file; a configuration file may have several. */
export const tokenVariable = 'AUTHPROXY_PASSTHROUGH_TOKEN'
const tokenFileVariable = `${tokenVariable}_FILE`

const REQUIRED = [['domain'], ['proxy', 'listenAddress'], ['proxy', 'targetURL']]
const SOURCES = [['idpMetadataURL'], ['idpMetadataFile']]

/** The variable of a setting: `proxy.listenAddress` is `AUTHPROXY_PROXY_LISTEN_ADDRESS`. */
export function variableOf(path: readonly string[]): string {
  const words = path.map(key =>
    key.replace(/([a-z0-9])([A-Z])/g, '$1_$2').replace(/([A-Z])([A-Z][a-z])/g, '$1_$2'),
  )
  return `${PREFIX}${words.join('_').toUpperCase()}`
}

/**
 * The settings in the environment: none; incomplete, so that the file counts; or `found`, in the form a file would have, and
 * unknown variables with the one that was probably meant. An empty variable counts as not set. `links` are the variables that
 * Kubernetes has set, which are not read.
 */
export function readEnvironment(environment: Environment) {
  const own = Object.keys(environment)
    .filter(name => name.startsWith(PREFIX))
    .sort()
  const links = own.filter(name => isServiceLink(name, environment[name]))
  const present = own.filter(name => environment[name] !== '' && !links.includes(name))
  if (present.length === 0) return { is: 'absent', links } as const
  const has = (path: readonly string[]) => present.includes(variableOf(path))
  const missing = REQUIRED.filter(path => !has(path)).map(variableOf)
  if (!SOURCES.some(has)) missing.push(SOURCES.map(variableOf).join(' or '))
  if (missing.length > 0) return { is: 'incomplete', links, present, missing } as const

  const found: Record<string, unknown> = {}
  const known = new Set([tokenVariable, tokenFileVariable])
  for (const page of manualPages(settings)) {
    if (!('setting' in page)) continue
    const variable = variableOf(page.path)
    known.add(variable)
    const value = environment[variable] ?? ''
    if (value !== '') put(found, page.path, rawValue(value, page.setting.name))
  }
  const token = environment[tokenVariable] || undefined
  const tokenFile = environment[tokenFileVariable] || undefined
  if ((token ?? tokenFile) !== undefined) {
    found['passthroughTokens'] = [{ name: 'environment', token, tokenFile }]
  }
  const unknown = present
    .filter(name => !known.has(name))
    .map(name => ({ name, near: nearestName(name, [...known]) }))
  return { is: 'complete', links, found, unknown } as const
}

/**
 * Whether Kubernetes has set this variable: it does so in each pod for each Service of the namespace, so that a Service called
 * `authproxy`, or with a longer name that begins so, gives variables that look like settings (Kubernetes: Service, environment
 * variables). The value has to have the form of Kubernetes too: `AUTHPROXY_PORT=8080` is the mistake of an administrator.
 */
function isServiceLink(name: string, value = ''): boolean {
  if (/_SERVICE_HOST$|_TCP_ADDR$|_UDP_ADDR$|_SCTP_ADDR$/.test(name)) return isIP(value) !== 0
  if (/_SERVICE_PORT(_[A-Z0-9_]+)?$/.test(name)) return /^\d{1,5}$/.test(value)
  if (/_PORT_\d+_(TCP|UDP|SCTP)_PORT$/.test(name)) return /^\d{1,5}$/.test(value)
  if (/_PORT(_\d+_(TCP|UDP|SCTP))?$/.test(name)) return /^(tcp|udp|sctp):\/\//.test(value)
  return /_PORT_\d+_(TCP|UDP|SCTP)_PROTO$/.test(name) && /^(tcp|udp|sctp)$/.test(value)
}

/** The place of a problem in messages: the variable, and the setting when that is a member of a list. */
export function problemPlace(path: readonly (string | number)[]): string {
  const keys = path.filter((step): step is string => typeof step === 'string')
  if (keys[0] === 'passthroughTokens') {
    return keys.includes('tokenFile') ? tokenFileVariable : tokenVariable
  }
  const index = path.findIndex(step => typeof step === 'number')
  const name = variableOf(index < 0 ? keys : keys.slice(0, index))
  return index < 0 ? name : `${name} (${keyPath(path)})`
}

/** Text of a variable as YAML would have read it. */
function rawValue(text: string, kind: string): unknown {
  if (kind === 'boolean') return { true: true, false: false, '1': true, '0': false }[text] ?? text
  if (kind === 'integer') return /^\d+$/.test(text) ? Number(text) : text
  if (!kind.startsWith('list of ')) return text
  return text
    .split(',')
    .map(member => member.trim())
    .filter(member => member !== '')
}

function put(
  into: Record<string, unknown>,
  [key = '', ...rest]: readonly string[],
  value: unknown,
): void {
  if (rest.length === 0) {
    into[key] = value
    return
  }
  const group = isRecord(into[key]) ? { ...into[key] } : {}
  put(group, rest, value)
  into[key] = group
}
