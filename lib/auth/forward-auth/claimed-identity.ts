/**
 * Finds the field by which a client could pass for another user at the application, where an edge passes requests on. Pure.
 *
 * The gateway removes every such field (identity/backend-fields.ts). An edge overwrites those that the answer to its check has, by their
 * exact names, and passes others on: other spellings of them, and names of other proxies that the application may believe.
 */
import type { Fields } from '../../http/message/field.ts'
import { instanceField } from '../access/instance-id.ts'
import { tokenField } from '../access/passthrough.ts'
import type { Config } from '../config/config.ts'
import { isIdentityField } from '../config/field-names.ts'
import { probeField } from '../doctor/probe.ts'
import { identityFieldNames } from '../identity/identity-fields.ts'
import { edgeSecretField } from './contract.ts'

/** The fields of our prefix that do not name a user. */
const NO_IDENTITY = [
  ...['X-Authproxy-Request-ID', instanceField, tokenField, probeField, edgeSecretField],
]

/** The name of such a field; undefined when there is none. */
export function claimedIdentity(client: Fields, config: Config): string | undefined {
  const { stripped } = config.identityFields
  const harmless = harmlessNames(config)
  const { flat } = client
  for (let i = 0; i + 1 < flat.length; i += 2) {
    const name = flat[i] ?? ''
    if (!isIdentityField(name) && !stripped.test(name)) continue
    if (!harmless.has(name.toLowerCase())) return name
  }
  return undefined
}

/** The harmless names of each configuration, in lower case. */
const known = new WeakMap<Config, ReadonlySet<string>>()

function harmlessNames(config: Config): ReadonlySet<string> {
  const found = known.get(config)
  if (found !== undefined) return found
  const sent = identityFieldNames(config.identityFields, config.identityToken !== undefined)
  const names = new Set([...sent, ...NO_IDENTITY].map(name => name.toLowerCase()))
  known.set(config, names)
  return names
}
