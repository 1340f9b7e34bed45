/**
 * The examples of the setup page. Their texts are in templates/operations/examples.txt, whose first lines explain its form. This file
 * reads them, and has the values and conditions that they name. It also fills the script `/_cachesvc/setup.sh`. Zone files have the form of
 * RFC 1035 section 5, SRV records that of RFC 2782.
 */
import { readFileSync } from 'node:fs'
import { isIP, isIPv4 } from 'node:net'
import { join } from 'node:path'
import { type Authority, formatAuthority } from '../../http/message/target.ts'
import { packageRoot } from '../../package.ts'
import type { Endpoint } from './endpoint.ts'
import type { HttpsMode } from './sources.ts'

/** A text that readers can copy. */
export interface Example {
  /** The id of the example, which is unique on the page and ends its link. */
  readonly id: string
  readonly title: string
  readonly intro: string
  /** The file that gets the text, or `Shell`. */
  readonly place: string
  readonly text: string
  readonly notes: readonly string[]
}

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
  /** The URL of the listener for TLS, such as `https://cache.example.org:3143`; undefined when there is none. */
  readonly secureUrl?: string | undefined
  /** The host names of archives in examples; never empty. */
  readonly archives: readonly [string, ...string[]]
}

/** A chapter, which has no text of its own, or an example. */
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

// The files are read at import, so that the service does not start without them.
const directory = join(packageRoot(), 'templates', 'operations')
const file = join(directory, 'examples.txt')
const [, ...sections] = readFileSync(file, 'utf8').split(/^(?=@ )/m)
const parts = sections.map(section => section.split(/^(?== )/m).map(readPart))

/**
 * All examples, in the order of the page. When HTTPS is intercepted, the chapter about the certificate is first, because a machine has
 * to trust it first. Throws when a text names a value or a condition that does not exist.
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
      lines
        .filter(line => line.key === key && applies(line))
        .map(line => fillTemplate(line.value, values))
    const [place = ''] = found('in')
    const [intro = ''] = found('intro')
    return { id, title, intro, place, text: fillTemplate(text, values), notes: found('note') }
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

/** The conditions that texts can name. Port 3142 has its own, because auto-apt-proxy tries it on gateways and neighbours. */
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

/** An SRV record for each proxy and archive. apt tries those with the smaller priority first. */
function archiveRecords(proxies: readonly Authority[], archives: readonly string[]): string {
  const named = proxies.map((proxy, at) => ({ ...namesOf(proxy, at), port: proxy.port }))
  const records = archives.slice(0, mostArchives).flatMap(archive => {
    const service = `_http._tcp.${archive}. 3600 IN SRV`
    return named.map(({ name, port }, priority) => `${service} ${priority} 0 ${port} ${name}.`)
  })
  return `${named.map(({ address }) => address).join('')}${records.join('\n')}`
}

/** The name of a proxy in SRV records, which need one. When the examples have only an address, `address` is a record for an invented name. */
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

/*
 * The script `/_cachesvc/setup.sh`, and the detection script that it installs: apt asks the latter which of the proxies answers.
 */

/** The file in all examples that tells apt the proxy. */
const aptFile = '/etc/apt/apt.conf.d/30cachesvc'

/** The path of the installed detection script. */
const scriptFile = '/usr/local/bin/apt-proxy-detect'

const setupText = readFileSync(join(directory, 'setup.sh'), 'utf8')
const detectionText = readFileSync(join(directory, 'apt-proxy-detect'), 'utf8')

/** The values for the scripts. */
interface ScriptSetting {
  readonly here: Endpoint
  /** The members of `index.proxies`; empty when clients use this service alone. */
  readonly proxies: readonly Authority[]
}

/** The URLs of the proxies that clients try, in this order. */
function proxyList({ here, proxies }: ScriptSetting): readonly string[] {
  const urls = proxies.map(proxy => `http://${formatAuthority(proxy)}`)
  return urls.length === 0 ? [here.url] : urls
}

/** The detection script. It needs only programs of every Debian: sh, timeout (coreutils), perl-base and logger (bsdutils). */
function detectionScript(setting: ScriptSetting): string {
  return fillTemplate(detectionText.trimEnd(), { proxies: proxyList(setting).join(' ') })
}

/**
 * A script for plain sh that configures apt on a client. It can be run again, and `--undo` undoes its changes. A script whose download
 * broke off does nothing.
 */
export function setupScript(setting: ScriptSetting): string {
  // setup.sh writes the first line itself, with a line below by which it recognises the file.
  const detection = detectionScript(setting).replace('#!/bin/sh\n', '')
  const all = proxyList(setting)
  // Each service has its own generations, so a snapshot is always asked from the first one, through any of the proxies.
  const [first = setting.here.url] = all
  return fillTemplate(setupText, { urls: all.join(' or '), first, aptFile, scriptFile, detection })
}

/** The text with each `{{name}}` replaced by its value. Throws when there is no value of that name. */
function fillTemplate(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`there is no value for {{${name}}}`)
    return value
  })
}
