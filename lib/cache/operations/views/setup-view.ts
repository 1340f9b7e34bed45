/**
 * The values of the setup page: examples made for this service, with its real host and ports.
 */
import { formatAuthority } from '../../../http/message/target.ts'
import type { View } from '../../../template.ts'
import type { Config } from '../../config/config.ts'
import { type Endpoint, isLoopback } from '../endpoint.ts'
import { chapters, type Setting } from '../examples/examples.ts'
import type { OperationsSources } from '../sources.ts'

/** Named in examples when the configuration names no archive. */
const placeholderArchive = 'archive.example.org'

export function setupView(sources: OperationsSources, here: Endpoint): View {
  const { config, httpsMode, https } = sources
  const listeners = sources.listeners()
  const secure = listeners.find(listener => listener.secure)
  const setting: Setting = {
    here,
    ports: listeners.filter(listener => !listener.secure).map(listener => listener.port),
    httpsMode,
    fingerprint: https()?.fingerprint,
    secureUrl: secure && `https://${formatAuthority({ host: here.host, port: secure.port })}`,
    archives: exampleArchives(config),
  }
  return {
    url: here.url,
    host: here.host,
    named: config.index.hostnames.some(name => name.trim() !== ''),
    alone: isLoopback(here.host),
    onlyHere: listeners.length > 0 && listeners.every(({ address }) => isLoopback(address ?? '')),
    placeholder: listedArchives(config).length === 0,
    placeholderArchive,
    chapters: chapters(setting),
  }
}

/** Archives to name: the hosts the configuration lists outright, else a placeholder. */
export function exampleArchives(config: Config): Setting['archives'] {
  const [first = placeholderArchive, ...rest] = listedArchives(config)
  return [first, ...rest]
}

function listedArchives(config: Config): readonly string[] {
  return config.domains
    .filter(pattern => !pattern.subdomains && pattern.port === undefined)
    .map(pattern => pattern.host)
}
