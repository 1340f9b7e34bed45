/**
 * Examples for networks whose machines find this service without a setting of their own. Zone files as in RFC 1035
 * section 5, SRV as in RFC 2782. Pure.
 */
import { isIPv4 } from 'node:net'
import { type Chapter, example, type Setting } from './example.ts'

/** The port auto-apt-proxy tries on gateways and neighbours. */
const guessedPort = 3142

/** An SRV record for each archive, but no more than so many. */
const mostArchives = 5

export function discoveryChapter(setting: Setting): Chapter {
  const { here, ports, archives } = setting
  const { name, domain, address } = names(setting)
  const record = (service: string) => `${service}. 3600 IN SRV 0 0 ${here.port} ${name}.`
  const examples = [
    example('Shell', {
      id: 'auto-apt-proxy',
      title: 'auto-apt-proxy',
      intro:
        'A package that looks for a proxy each time apt runs, and uses none when it finds none.',
      text: 'sudo apt-get install --yes auto-apt-proxy\nauto-apt-proxy',
      notes: [
        ports.includes(guessedPort)
          ? 'It finds this service on the default gateway and on the machine itself; on other machines it needs the DNS record below.'
          : `It tries port ${guessedPort}, which no listener of this service has, so it needs the DNS record below.`,
        'The second command prints what it found.',
      ],
    }),
    example(`Zone ${domain}`, {
      id: 'srv-proxy',
      title: 'DNS: the proxy of a domain',
      intro: `auto-apt-proxy looks up this record in the domain of its machine, here ${domain}.`,
      text: `${address}${record(`_apt_proxy._tcp.${domain}`)}`,
      notes: [`To check: dig +short SRV _apt_proxy._tcp.${domain}`],
    }),
    example('Your own resolver', {
      id: 'srv-archive',
      title: 'DNS: one archive',
      intro:
        'apt itself looks up this record before it connects to an archive over http: machines without any setting use this service.',
      text: `${address}${archives
        .slice(0, mostArchives)
        .map(archive => record(`_http._tcp.${archive}`))
        .join('\n')}`,
      notes: [
        'The record belongs in a local zone of the resolver your machines use, such as a response policy zone.',
      ],
    }),
  ]
  return { id: 'discovery', title: 'A whole network', examples }
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
