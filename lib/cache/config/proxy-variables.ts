/**
 * The variables by which other programs are told of a proxy, which this one does not read: what it asks for its clients is a setting.
 */
import { proxyVariable } from '../../config/proxy-url.ts'
import type { UserEnvironment } from './config.ts'

/** The note for the log when such a variable is set and no parent proxy is configured; it shows no credentials. */
export function ignoredProxyNote(
  { parentProxy }: { readonly parentProxy: unknown },
  environment: UserEnvironment['environment'],
): string | undefined {
  if (parentProxy !== undefined) return undefined
  const named = proxyVariable(environment, ['http', 'https'])
  if (named === undefined) return undefined
  return `the environment sets ${named.name}, which is ignored: origins are asked directly. If they can only be reached by that proxy, set \`parent_proxy: ${named.url}\` in cachesvc.yaml`
}
