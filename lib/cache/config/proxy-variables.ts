/**
 * The variables by which other programs are told of a proxy, which this one does not read: what it asks for its clients is a setting.
 */
import { formatAuthority } from '../../http/message/target.ts'
import type { UserEnvironment } from './config.ts'
import { readParentProxy } from './setting-kinds.ts'

const variables = [
  'http_proxy',
  'HTTP_PROXY',
  'https_proxy',
  'HTTPS_PROXY',
  'all_proxy',
  'ALL_PROXY',
]

/** The note for the log when such a variable is set and no parent proxy is configured; it shows no credentials. */
export function ignoredProxyNote(
  { parentProxy }: { readonly parentProxy: unknown },
  environment: UserEnvironment['environment'],
): string | undefined {
  if (parentProxy !== undefined) return undefined
  const name = variables.find(variable => (environment[variable] ?? '') !== '')
  if (name === undefined) return undefined
  const read = readParentProxy(environment[name])
  const url = `http://${read.ok ? formatAuthority(read.value) : 'proxy.example.org:3128'}`
  return `the environment sets ${name}, which is ignored: origins are asked directly. If they can only be reached by that proxy, set \`parent_proxy: ${url}\` in cachesvc.yaml`
}
