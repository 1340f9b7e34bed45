/**
 * The examples of the setup page. Their texts are in templates/operations/examples.txt, whose first lines explain its form; this
 * file reads them and has the values and conditions they name. Zone files are those of RFC 1035 section 5, SRV records those of
 * RFC 2782.
 */
import { readFileSync } from 'node:fs'
import { isIP, isIPv4 } from 'node:net'
import { join } from 'node:path'
import type { Authority } from '../../../http/message/target.ts'
import { packageRoot } from '../../../package.ts'
import type { HttpsMode } from '../../intercept/https.ts'
import { aptFile, detectionScript, fill, type ScriptSetting, scriptFile } from './setup-script.ts'

/** Something to paste. */
export interface Example {
  /** Unique on the page: the end of its link. */
  readonly id: string
  readonly title: string
  readonly intro: string
  /** Where it goes: a file's name, or `Shell`. */
  readonly place: string
  readonly text: string
  readonly notes: readonly string[]
}

/** A group of examples under one heading. */
interface Chapter {
  readonly id: string
  readonly title: string
  readonly examples: readonly Example[]
}

export interface Setting extends ScriptSetting {
  readonly ports: readonly number[]
  readonly httpsMode: HttpsMode
  /** The fingerprint of the CA's certificate; undefined when there is no CA. */
  readonly fingerprint?: string | undefined
  /** `https://cache.example.org:3143`, when there is a listener for TLS. */
  readonly secureUrl?: string | undefined
  /** Host names of archives to name in examples, never empty. */
  readonly archives: readonly [string, ...string[]]
}

/** A chapter, which has no text, or an example. */
interface Part {
  readonly id: string
  readonly title: string
  readonly condition: string | undefined
  readonly lines: readonly Line[]
  readonly text: string
}

interface Line {
  readonly key: string
  readonly condition: string | undefined
  readonly value: string
}

// Read at import: a file that is missing or malformed stops the start.
const file = join(packageRoot(), 'templates', 'operations', 'examples.txt')
const [, ...sections] = readFileSync(file, 'utf8').split(/^(?=@ )/m)
const parts = sections.map(section => section.split(/^(?== )/m).map(readPart))

/**
 * All examples, in the order of the page. Where HTTPS is read, a machine has to trust the certificate before all else. Throws when
 * a text names a value or a condition that does not exist.
 */
export function chapters(setting: Setting): readonly Chapter[] {
  const values = valuesFor(setting)
  const conditions = conditionsFor(setting)
  const applies = ({ condition }: Part | Line) => {
    if (condition === undefined) return true
    const answer = conditions[condition]
    if (answer === undefined) throw new Error(`${file}: there is no condition "${condition}"`)
    return answer
  }
  const example = ({ id, title, lines, text }: Part): Example => {
    const found = (key: string) =>
      lines.filter(line => line.key === key && applies(line)).map(line => fill(line.value, values))
    const [place = ''] = found('in')
    const [intro = ''] = found('intro')
    return { id, title, intro, place, text: fill(text, values), notes: found('note') }
  }
  const all = parts.flatMap(([chapter, ...examples]) => {
    if (chapter === undefined || !applies(chapter)) return []
    const { id, title } = chapter
    return [{ id, title, examples: examples.filter(applies).map(example) }]
  })
  const isFirst = ({ id }: Chapter) => setting.httpsMode === 'intercept' && id === 'certificate'
  return [...all.filter(isFirst), ...all.filter(chapter => !isFirst(chapter))]
}

function readPart(source: string): Part {
  const [head = '', ...rest] = source.split('\n\n')
  const [heading = '', ...others] = head.split('\n')
  const [, id, title] = /^[@=] (\S+) (.+)$/.exec(heading) ?? []
  if (id === undefined || title === undefined) return malformed(heading)
  const lines = others.map(readLine)
  const condition = lines.find(({ key }) => key === 'if')?.value
  return { id, title, condition, lines, text: rest.join('\n\n').trimEnd() }
}

function readLine(line: string): Line {
  const [, key, condition, value] = /^(in|intro|note|if)(?: if ([^:]+))?: (.+)$/.exec(line) ?? []
  if (key === undefined || value === undefined) return malformed(line)
  return { key, condition, value }
}

function malformed(line: string): never {
  throw new Error(`${file}: malformed line "${line}"`)
}

/** auto-apt-proxy tries port 3142 on gateways and neighbours. */
function conditionsFor(setting: Setting): Readonly<Record<string, boolean>> {
  const { httpsMode, ports, fingerprint, secureUrl } = setting
  const intercept = httpsMode === 'intercept'
  return {
    tunnel: httpsMode === 'tunnel',
    disabled: httpsMode === 'disabled',
    intercept,
    'not intercept': !intercept,
    certificate: intercept || fingerprint !== undefined,
    fingerprint: fingerprint !== undefined,
    'TLS listener': secureUrl !== undefined,
    'several proxies': setting.proxies.length > 1,
    'one proxy': setting.proxies.length < 2,
    'port 3142': ports.includes(3142),
    'not port 3142': !ports.includes(3142),
  }
}

/** An SRV record for each archive, but no more than so many. */
const mostArchives = 5

function valuesFor(setting: Setting): Readonly<Record<string, string>> {
  const { here, proxies, archives, fingerprint = '', secureUrl = '' } = setting
  const { name, domain, address } = namesOf(here)
  const record = (service: string) => `${service}. 3600 IN SRV 0 0 ${here.port} ${name}.`
  return {
    url: here.url,
    aptFile,
    scriptFile,
    detectionScript: detectionScript(setting),
    archive: archives[0],
    domain,
    proxyRecords: `${address}${record(`_apt_proxy._tcp.${domain}`)}`,
    archiveRecords: archiveRecords(proxies.length === 0 ? [here] : proxies, archives),
    fingerprint,
    secureUrl,
  }
}

/** An SRV record for each proxy and archive: apt tries those with the smaller priority first. */
function archiveRecords(proxies: readonly Authority[], archives: readonly string[]): string {
  const named = proxies.map((proxy, at) => ({ ...namesOf(proxy, at), port: proxy.port }))
  const records = archives.slice(0, mostArchives).flatMap(archive => {
    const service = `_http._tcp.${archive}. 3600 IN SRV`
    return named.map(({ name, port }, priority) => `${service} ${priority} 0 ${port} ${name}.`)
  })
  return `${named.map(({ address }) => address).join('')}${records.join('\n')}`
}

/** SRV records point to names: when examples know an address only, a name for it comes first. */
function namesOf(
  { host }: Authority,
  at = 0,
): { readonly name: string; readonly domain: string; readonly address: string } {
  if (isIP(host) === 0) {
    const domain = host.split('.').slice(1).join('.')
    return { name: host, domain: domain === '' ? 'example.org' : domain, address: '' }
  }
  const name = `apt-cache${at === 0 ? '' : at + 1}.example.org`
  const type = isIPv4(host) ? 'A' : 'AAAA'
  return { name, domain: 'example.org', address: `${name}. 3600 IN ${type} ${host}\n` }
}
