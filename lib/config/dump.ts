/**
 * Prints the settings in force in the form of a file, each with its value and the source of the value. Secrets are hidden.
 * Pure.
 *
 * # Facts
 * - JSON is YAML, so a value is written as JSON in one line.
 * - Text is hidden when the name of its setting ends with a word for a secret. A digest of it is hidden too, because a short
 *   secret can be guessed by its digest. A setting that names the file of a secret is shown. In all others, names and passwords
 *   within URLs are hidden.
 */
import { isRecord } from '../json.ts'
import { redactUrl } from '../log/redact.ts'
import type { Settings } from './settings.ts'

/** A value that does not come from the file, but from a variable or an option of the command line. */
export interface Override {
  readonly value: unknown
  readonly source: string
}

interface Filling {
  readonly document: unknown
  /** The source of a value, by the names of its groups and its setting. */
  readonly source: (path: readonly string[]) => string
  /** The overrides, by names of settings. */
  readonly overrides: ReadonlyMap<string, Override>
}

/** The settings as YAML, a line each with its source as a comment. */
export function dumpSettings(
  { members = {} }: Settings<unknown>,
  { document, source, overrides }: Filling,
): string {
  const lines: string[] = []
  const within = (
    tree: Settings<unknown>['members'],
    here: unknown,
    { indent, above: ancestors }: { readonly indent: string; readonly above: readonly string[] },
  ): void => {
    for (const [name, member] of Object.entries(tree ?? {})) {
      const value = isRecord(here) && Object.hasOwn(here, name) ? here[name] : undefined
      const over = ancestors.length === 0 ? overrides.get(name) : undefined
      const path = [...ancestors, name]
      if (over !== undefined) {
        lines.push(line(indent, name, over.value, over.source))
      } else if ('group' in member.page) {
        lines.push(`${indent}${name}:`)
        within(member.members, value, { indent: `${indent}  `, above: path })
      } else if (member.members !== undefined && Array.isArray(value) && value.length > 0) {
        lines.push(`${indent}${name}:  # ${source(path)}`)
        for (const one of value) {
          lines.push(`${indent}  -`)
          within(member.members, one, { indent: `${indent}    `, above: path })
        }
      } else if (value !== undefined) {
        lines.push(line(indent, name, value, source(path)))
      } else {
        const { default: usual, defaultText = 'none' } = member.page.setting
        // An empty list of groups may be invalid, because an empty access list would let in no client.
        const isList = member.members !== undefined && Array.isArray(usual) && usual.length === 0
        if (usual === undefined || isList) {
          lines.push(`${indent}# ${name}: not set; ${defaultText}`)
        } else lines.push(line(indent, name, usual, 'default'))
      }
    }
  }
  within(members, document, { indent: '', above: [] })
  return `${lines.join('\n')}\n`
}

function line(indent: string, name: string, value: unknown, source: string): string {
  return `${indent}${name}: ${JSON.stringify(shown(name, value))}  # ${source}`
}

/** The names of settings whose texts are secrets, or may be secrets by mistake. */
const secret = /(?:token|secret|password|passphrase|sha256)$/i

function shown(name: string, value: unknown): unknown {
  if (typeof value === 'boolean') return value
  if (secret.test(name) && value !== '' && value !== undefined) return '[hidden]'
  if (typeof value === 'string') return withoutCredentials(value)
  if (Array.isArray(value)) return value.map(one => shown(name, one))
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shown(key, one)]))
}

/**
 * The text without the userinfo of its URLs. `user:password@host` and `user@host/path` without a scheme count as URLs. Mail
 * addresses such as `ann@example.org` or `mailto:ann@example.org` do not.
 */
function withoutCredentials(text: string): string {
  const isPerson = !/[:/]/.test(text) || /^mailto:/i.test(text)
  const hidden = text.replace(/^([a-z][a-z0-9+.-]*:\/\/)?[^/\s]*@/i, '$1[hidden]@')
  return redactUrl(isPerson ? text : hidden)
}
