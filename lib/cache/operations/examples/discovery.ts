/**
 * Examples for whole networks: machines find this service by themselves. Zone files as in RFC 1035 section 5, SRV as in
 * RFC 2782. Pure.
 */
import { isIPv4 } from 'node:net'
import type { Chapter, Example, Setting } from './example.ts'

/** The port auto-apt-proxy tries on gateways and neighbours. */
const guessedPort = 3142

/** An SRV record for each archive, but no more than so many. */
const mostArchives = 5

export function discoveryChapter(setting: Setting): Chapter {
  return {
    id: 'discovery',
    title: 'A whole network',
    examples: [autoAptProxy(setting), proxyRecord(setting), archiveRecord(setting)],
  }
}

function autoAptProxy({ ports }: Setting): Example {
  const guessed = ports.includes(guessedPort)
  return {
    id: 'auto-apt-proxy',
    title: 'auto-apt-proxy',
    intro:
      'A package that looks for a proxy each time apt runs, and does without when it finds none.',
    place: 'Shell',
    grammar: 'shell',
    text: 'sudo apt-get install --yes auto-apt-proxy\nauto-apt-proxy',
    notes: [
      guessed
        ? 'It finds this service on the default gateway and on the machine itself, and anywhere else by the DNS record below.'
        : `It guesses port ${guessedPort}, which no listener here has, so it needs the DNS record below.`,
      'The second command prints what it found.',
    ],
  }
}

function proxyRecord(setting: Setting): Example {
  const { name, domain, address } = names(setting)
  return {
    id: 'srv-proxy',
    title: 'DNS: the proxy of a domain',
    intro: `auto-apt-proxy asks for this record in the domain its machine belongs to, here ${domain}.`,
    place: `Zone ${domain}`,
    grammar: 'zone',
    text: `${address}_apt_proxy._tcp.${domain}. 3600 IN SRV 0 0 ${setting.here.port} ${name}.`,
    notes: [`To check: dig +short SRV _apt_proxy._tcp.${domain}`],
  }
}

function archiveRecord(setting: Setting): Example {
  const { name, address } = names(setting)
  const records = setting.archives.slice(0, mostArchives).map(archive => {
    return `_http._tcp.${archive}. 3600 IN SRV 0 0 ${setting.here.port} ${name}.`
  })
  return {
    id: 'srv-archive',
    title: 'DNS: one archive',
    intro:
      'apt itself asks for this record before it connects to an archive over http: machines with no setting at all come here.',
    place: 'Your own resolver',
    grammar: 'zone',
    text: `${address}${records.join('\n')}`,
    notes: [
      'The record belongs in a local zone of the resolver your machines use, such as a response policy zone.',
    ],
  }
}

/** SRV records point to names: when examples know an address only, a name for it comes first. */
function names({ here }: Setting): {
  readonly name: string
  readonly domain: string
  readonly address: string
} {
  if (!here.numeric) {
    const domain = here.host.split('.').slice(1).join('.')
    return { name: here.host, domain: domain === '' ? 'example.org' : domain, address: '' }
  }
  const name = 'apt-cache.example.org'
  const type = isIPv4(here.host) ? 'A' : 'AAAA'
  return { name, domain: 'example.org', address: `${name}. 3600 IN ${type} ${here.host}\n` }
}
