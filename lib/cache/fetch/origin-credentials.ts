/**
 * The credentials by which this proxy itself asks the origins of an archive (`archives[].credentials`). Reads their files, which have
 * the form of apt_auth.conf(5), and decides which request may carry them.
 *
 * # Facts
 * - A request carries them when the file that is wanted lies in the archive, its place is an origin of that archive, and a line of
 *   the file names scheme, host, port and the beginning of the path. Where another archive shares an origin, that origin is asked
 *   without them for the files of the other.
 * - A redirect keeps them on the same scheme, host and port within the archive alone. A chain that has left does not get them again.
 * - A line without a scheme counts for https alone, as for apt; one that begins with `http://` sends them readably, which is warned of.
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
  /** Without a slash at its end; empty for all of the host. */
  readonly path: string
  /** The value of Authorization, Basic of RFC 7617. */
  readonly authorization: string
}

/** What may be sent for one file. */
export interface FileCredentials {
  /** The setting they come from. */
  readonly setting: string
  /** The value of Authorization for a place; undefined when none may be sent there. */
  at(place: TargetUri): string | undefined
}

/** What a file reads as, or why it cannot be used. */
type Parsed = { readonly lines: readonly Line[] } | { readonly problem: string }

export class OriginCredentials {
  readonly #archives: Archives
  readonly #lines: ReadonlyMap<Archives[number], readonly Line[]>
  /** What is doubtful about them. */
  readonly warnings: readonly string[]

  private constructor(
    archives: Archives,
    lines: ReadonlyMap<Archives[number], readonly Line[]>,
    warnings: readonly string[],
  ) {
    this.#archives = archives
    this.#lines = lines
    this.warnings = warnings
  }

  /** None at all. */
  static readonly none = new OriginCredentials([], new Map(), [])

  /** Reads the files. Throws a Failure with one sentence when one cannot be used. */
  static read(
    archives: Archives,
    environment: Readonly<Record<string, string | undefined>>,
  ): OriginCredentials {
    const lines = new Map<Archives[number], readonly Line[]>()
    const warnings: string[] = []
    archives.forEach((archive, i) => {
      const { credentials: place } = archive
      if (place === undefined) return
      const name = `archives[${i}].credentials`
      const found = linesOf(place, environment)
      if ('problem' in found) {
        throw new Failure(`${name}: ${place} ${found.problem}`, { code: 'credentials-file' })
      }
      lines.set(archive, found.lines)
      for (const { scheme, host } of found.lines) {
        if (scheme === 'http') {
          warnings.push(
            `${name} has a line for http://${host}: name and password go there readable by everyone on the way`,
          )
        }
      }
      if (!archive.origins.some(origin => found.lines.some(line => line.host === origin.host))) {
        warnings.push(
          `${name} has no line for a host of that archive's origins, so nothing is sent`,
        )
      }
    })
    return lines.size === 0
      ? OriginCredentials.none
      : new OriginCredentials(archives, lines, warnings)
  }

  /** What may be sent for the file with this target; undefined when its archive has none. */
  of(wanted: TargetUri): FileCredentials | undefined {
    if (this.#lines.size === 0) return undefined
    const archive = archiveOf(wanted, this.#archives)?.archive
    const lines = archive && this.#lines.get(archive)
    if (archive === undefined || lines === undefined) return undefined
    return {
      setting: `archives[${this.#archives.indexOf(archive)}].credentials`,
      at(place) {
        if (archiveOf(place, [archive]) === undefined) return undefined
        return lines.find(line => isFor(line, place))?.authorization
      },
    }
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

/** Reads the text of such a file: words between blanks, `#` begins a comment at the beginning of a line. */
export function parseAuthConf(text: string): Parsed {
  const lines: Line[] = []
  const words = text
    .split('\n')
    .filter(line => !/^\s*#/.test(line))
    .join('\n')
    .split(/\s+/)
    .filter(word => word !== '')
  let entry: { machine: string; login?: string; password?: string } | undefined
  const end = (): string | undefined => {
    if (entry === undefined) return undefined
    const line = lineOf(entry, lines.length + 1)
    if (typeof line === 'string') return line
    lines.push(line)
    return undefined
  }
  for (let i = 0; i < words.length; i += 2) {
    const [word, value] = [words[i], words[i + 1]]
    if (word === 'machine' || word === 'login' || word === 'password') {
      if (value === undefined) return { problem: `ends after the word ${word}` }
      if (word === 'machine') {
        const problem = end()
        if (problem !== undefined) return { problem }
        entry = { machine: value }
      } else if (entry === undefined || entry[word] !== undefined) {
        return { problem: `has a ${word} that belongs to no machine` }
      } else entry[word] = value
    } else {
      // The word may be half of a password: it is not quoted.
      return {
        problem: `has something else than machine, login and password in entry ${lines.length + 1}`,
      }
    }
  }
  const problem = end()
  if (problem !== undefined) return { problem }
  return lines.length === 0
    ? { problem: 'has no line `machine HOST login NAME password PASSWORD`' }
    : { lines }
}

function lineOf(
  { machine, login, password }: { machine: string; login?: string; password?: string },
  number: number,
): Line | string {
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
