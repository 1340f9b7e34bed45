/**
 * The values of the setup page: examples for this service, with its real host and ports.
 */
import type { Request } from '../../../http/message/message.ts'
import { formatAuthority } from '../../../http/message/target.ts'
import { isIP, isLoopback } from '../../../ip.ts'
import type { View } from '../../../template.ts'
import type { Config } from '../../config/config.ts'
import { askedAuthority, type Endpoint } from '../endpoint.ts'
import { chapters, type Setting } from '../examples.ts'
import type { OperationsSources } from '../sources.ts'

/** The archive in examples when the configuration names none. */
const placeholderArchive = 'archive.example.org'

export function setupView(
  sources: OperationsSources,
  here: Endpoint,
  request: Pick<Request, 'target' | 'fields'>,
): View {
  const { config, httpsMode, https } = sources
  const listeners = sources.listeners()
  const secure = listeners.find(listener => listener.secure)
  const setting: Setting = {
    here,
    proxies: config.index.proxies,
    ports: listeners.filter(listener => !listener.secure).map(listener => listener.port),
    httpsMode,
    fingerprint: https()?.fingerprint,
    secureUrl: secure && `https://${formatAuthority({ host: here.host, port: secure.port })}`,
    archives: exampleArchives(config),
  }
  return {
    url: here.url,
    host: here.host,
    proxies: config.index.proxies.map(proxy => formatAuthority(proxy)).join(', '),
    chosen: chosenBecause(here, askedAuthority(request)?.host),
    onlyHere: listeners.length > 0 && listeners.every(({ address }) => isLoopback(address ?? '')),
    placeholder: listedArchives(config).length === 0,
    placeholderArchive,
    // The chapter for most readers is unfolded, and so is the certificate if machines need it first.
    chapters: chapters(setting).map(chapter => ({
      ...chapter,
      folded:
        chapter.id !== 'first' && !(chapter.id === 'certificate' && httpsMode === 'intercept'),
      titles: chapter.examples.map(({ title }) => title).join(' · '),
    })),
  }
}

/** A sentence that says why the examples name this host. */
function chosenBecause({ host, from }: Endpoint, asked: string | undefined): string {
  const setName = 'Set index.hostnames to a name that clients can use.'
  switch (from) {
    case 'index.hostnames':
      return 'The name is the first in index.hostnames.'
    case 'request':
      return `You opened this page as ${host}, which is ${isIP(host) === 0 ? 'the name' : 'an address'} of this machine. ${setName}`
    case 'listener':
      return `The service listens at this address alone. ${setName}`
    case 'machine':
      return `It is the first IPv4 address of this machine${
        asked === undefined || asked === host
          ? ''
          : `: you opened this page as ${asked}, which other machines cannot use`
      }. Open this page by the address that clients use, or set index.hostnames.`
    case 'loopback':
      return 'This machine has no other address. Set index.hostnames to a name that other machines can use.'
  }
}

/** The archives that examples name: the hosts that the configuration lists without patterns, else a placeholder. */
export function exampleArchives(config: Config): Setting['archives'] {
  const [first = placeholderArchive, ...rest] = listedArchives(config)
  return [first, ...rest]
}

function listedArchives(config: Config): readonly string[] {
  return config.domains
    .filter(pattern => !pattern.subdomains && pattern.port === undefined)
    .map(pattern => pattern.host)
}
