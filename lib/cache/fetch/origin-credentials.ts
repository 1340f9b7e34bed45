/**
 * The credentials with which this proxy itself asks the origins of an archive (`archives[].credentials`). It reads their files, which
 * have the form of apt_auth.conf(5), and decides which requests may have them.
 *
 * # Facts
 * - A request has them when the wanted file is in the archive, its place is an origin of that archive, and a line of the file names the
 *   scheme, the host, the port and the beginning of the path. An origin that another archive shares does not get them for files of the
 *   other archive.
 * - A redirect keeps them only on the same scheme, host and port within the archive. A chain of redirects that has left does not get
 *   them again.
 * - A line without a scheme counts for https only, as with apt. A line with `http://` sends them unencrypted, so the service warns of it.
 * - They are never part of the configuration, and no message quotes them.
 */
import { privateSecret } from '../../config/secret-place.ts'
import { Failure } from '../../errors.ts'
import {
  defaultPort,
  parseAuthority,
  type Scheme,
  type TargetUri,
} from '../../http/message/target.ts'
import type { Config } from '../config/config.ts'
import { archiveOf } from '../policy/routing.ts'

type Archives = Config['archives']

/** One line of a file. */
interface Line {
  readonly scheme: Scheme
  readonly host: string
  readonly port: number
  /** The beginning of the path, without a slash at its end; empty for all paths of the host. */
  readonly path: string
  /** The value of the field Authorization, with the scheme Basic of RFC 7617. */
  readonly authorization: string
}

/** The words of one line as they stand in the file. */
interface Entry {
  readonly machine: string
  login?: string
  password?: string
}

/** The lines of a file, or the reason why it cannot be used. */
type Parsed = { readonly lines: readonly Line[] } | { readonly problem: string }

export type OriginCredentials = Readonly<ReturnType<typeof readCredentials>>

/** The credentials for requests for one file. */
export type FileCredentials = NonNullable<ReturnType<OriginCredentials['of']>>

/** Reads the files. Throws a Failure with one sentence when one cannot be used. */
export function readCredentials(
  archives: Archives,
  environment: Readonly<Record<string, string | undefined>>,
) {
  const known = new Map<Archives[number], readonly Line[]>()
  const warnings: string[] = []
  archives.forEach((archive, i) => {
    const { credentials: place } = archive
    if (place === undefined) return
    const name = `archives[${i}].credentials`
    const found = linesOf(place, environment)
    if ('problem' in found) {
      throw new Failure(`${name}: ${place} ${found.problem}`, { code: 'credentials-file' })
    }
    const { lines } = found
    known.set(archive, lines)
    for (const { host } of lines.filter(({ scheme }) => scheme === 'http')) {
      warnings.push(
        `${name} has a line for http://${host}: name and password go there readable by everyone on the way`,
      )
    }
    if (!archive.origins.some(origin => lines.some(line => line.host === origin.host))) {
      warnings.push(`${name} has no line for a host of that archive's origins, so nothing is sent`)
    }
  })
  return {
    warnings,
    /** The credentials for the file with this target; undefined when its archive has none. */
    of(wanted: TargetUri) {
      const archive = known.size === 0 ? undefined : archiveOf(wanted, archives)?.archive
      const lines = archive && known.get(archive)
      if (archive === undefined || lines === undefined) return undefined
      return {
        /** The setting that names them. */
        setting: `archives[${archives.indexOf(archive)}].credentials`,
        /** The value of Authorization for a place; undefined when the place may not get any. */
        at(place: TargetUri): string | undefined {
          if (archiveOf(place, [archive]) === undefined) return undefined
          return lines.find(line => isFor(line, place))?.authorization
        },
      }
    },
  }
}

function isFor(line: Line, { scheme, host, port, path }: TargetUri): boolean {
  if (line.scheme !== scheme || line.host !== host || line.port !== port) return false
  return path.startsWith(line.path) && ['', '/'].includes(path.charAt(line.path.length))
}

function linesOf(place: string, environment: Readonly<Record<string, string | undefined>>): Parsed {
  const found = privateSecret(place, { service: 'cachesvc.service', environment })
  return 'problem' in found ? found : parseAuthConf(found.text)
}

/** Reads the text of such a file. It consists of words between blanks; a line that begins with `#` is a comment. */
export function parseAuthConf(text: string): Parsed {
  const words = text
    .split('\n')
    .filter(line => !/^\s*#/.test(line))
    .join('\n')
    .split(/\s+/)
    .filter(word => word !== '')
  const entries: Entry[] = []
  for (let i = 0; i < words.length; i += 2) {
    const [word, value] = [words[i], words[i + 1]]
    const entry = entries.at(-1)
    if (word !== 'machine' && word !== 'login' && word !== 'password') {
      // The message does not quote the word, because it may be half of a password.
      const number = Math.max(entries.length, 1)
      return { problem: `has something else than machine, login and password in entry ${number}` }
    }
    if (value === undefined) return { problem: `ends after the word ${word}` }
    if (word === 'machine') entries.push({ machine: value })
    else if (entry === undefined || entry[word] !== undefined) {
      return { problem: `has a ${word} that belongs to no machine` }
    } else entry[word] = value
  }
  if (entries.length === 0) {
    return { problem: 'has no line `machine HOST login NAME password PASSWORD`' }
  }
  const lines: Line[] = []
  for (const [i, entry] of entries.entries()) {
    const line = lineOf(entry, i + 1)
    if (typeof line === 'string') return { problem: line }
    lines.push(line)
  }
  return { lines }
}

function lineOf({ machine, login, password }: Entry, number: number): Line | string {
  const which = `has in entry ${number}`
  if (login === undefined || password === undefined) return `${which} no login or no password`
  if (login.includes(':')) return `${which} a login with a colon, which Basic cannot send`
  const [, scheme = 'https', rest = ''] = /^(?:([a-z]+):\/\/)?(.*)$/s.exec(machine) ?? []
  if (scheme !== 'https' && scheme !== 'http')
    return `${which} a machine that is not of http or https`
  const [, name = '', path = ''] = /^([^/]*)(.*)$/s.exec(rest) ?? []
  const authority = parseAuthority(name, defaultPort(scheme))
  if ('problem' in authority) return `${which} no host after machine`
  const authorization = `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`
  return { scheme, ...authority, path: path.replace(/\/+$/, ''), authorization }
}
