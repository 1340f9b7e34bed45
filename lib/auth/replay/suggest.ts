/**
 * Suggests rules of `access` that allow the use in a log: each allows groups below a path, no two are for the same path, and each is
 * needed by a request of the log. It does no I/O.
 *
 * # How
 * - The used paths are a tree of folders. A folder becomes one rule, or is left to its parts, whichever is shorter to say: a line
 *   costs `#line` bits, and a use (a person and a path) the bits that tell its person from all whom the line lets in. So one
 *   person at one page is no reason for a rule, and five administrators where forty people go elsewhere are.
 * - Groups are chosen to cover the people of a folder: few groups, and small ones. People whom no group covers are named.
 * - Nothing is opened to visitors that no rule of the configuration opens to them.
 */
import { askedPath, coversRule } from '../access/path-rule.ts'
import { type AccessRule, judgeAccess } from '../access/rules.ts'
import type { Config } from '../config/config.ts'
import { type LoggedRequest, LogReader } from './log-reader.ts'

/** A person with the groups of a login. */
interface Member {
  readonly subject: string
  readonly groups: readonly Alternative[]
}

/** A line that lets people in. */
interface Alternative {
  readonly key: 'groups' | 'users'
  readonly value: string
  readonly members: Set<Member>
}

/** Requests by member. */
type Uses = Map<Member, number>

interface Folder {
  readonly below: Map<string, Folder>
  /** Spellings of the paths that end here, and of those that do not, as far as this folder. */
  readonly ends: Set<string>
  readonly folders: Set<string>
  readonly uses: Uses
}

interface Rule {
  readonly path: string
  readonly allow: 'anyone' | readonly Alternative[]
  readonly methods?: ReadonlySet<string> | undefined
  readonly uses: Uses
}

interface Plan {
  readonly bits: number
  readonly rules: readonly Rule[]
  readonly uses: Uses
  /** Pairs of a member and a path. */
  readonly pairs: number
}

const MOST_PAIRS = 1_000_000
const DEEPEST = 30

export class Suggestion {
  readonly #config: Config
  readonly #log = new LogReader()
  readonly #alternatives = new Map<string, Alternative>()
  readonly #members = new Map<string, Member>()
  readonly #root = newFolder()
  /** The uses by path, apart for each rule of the configuration that opens the path to visitors. */
  readonly #used = new Map<AccessRule | undefined, Map<string, Uses>>()
  readonly #leftOut = new Map<string, number>()
  #pairs = 0
  #line = 0

  constructor(config: Config) {
    this.#config = config
  }

  take(line: string): void {
    const found = this.#log.read(line)
    if (found !== undefined && 'isLetIn' in found && found.isLetIn) this.#request(found)
  }

  report(): readonly string[] {
    const missing = this.#log.missing(['groups'])
    if (missing !== undefined) return [`# ${missing}`]
    const open: Rule[] = []
    for (const [rule, byPath] of this.#used) {
      const all = [...byPath].flatMap(([path, uses]) =>
        [...uses].map(use => [path, ...use] as const),
      )
      if (rule !== undefined && all.some(([, member]) => member === visitor)) {
        const uses: Uses = new Map()
        for (const [, member, count] of all) add(uses, member, count)
        open.push({ path: rule.path.written, methods: rule.methods, allow: 'anyone', uses })
      } else for (const use of all) this.#place(...use)
    }
    this.#line = 2 + Math.log2(1 + this.#members.size)
    const { rules } = this.#planOf(this.#root)
    const leftOut = [...this.#leftOut].map(([why, count]) => `# left out: ${count} requests ${why}`)
    const lines = [...open, ...rules].flatMap(linesOf)
    return [`# from ${this.#log.lines} lines of a log`, ...leftOut, 'access:', ...lines]
  }

  #request({ method, path, who, person, line }: LoggedRequest): void {
    if (String(line['because']).startsWith('passthrough-')) return
    const rule = this.#opening(method, path)
    const groups = person?.attributes.get('groups')
    if (who === undefined && rule === undefined) {
      return this.#leave('without a session, which no rule of the configuration lets pass')
    }
    if (who !== undefined && groups === undefined) {
      return this.#leave('of people whose login with its groups (log.groups) is not in the log')
    }
    const byPath = this.#used.get(rule) ?? new Map<string, Uses>()
    this.#used.set(rule, byPath)
    const uses = byPath.get(path) ?? new Map<Member, number>()
    const member = who === undefined ? visitor : this.#memberOf(who, groups ?? [])
    if (!uses.has(member)) this.#pairs += 1
    if (this.#pairs > MOST_PAIRS) return this.#leave('because the log has too many paths')
    byPath.set(path, uses)
    add(uses, member)
  }

  /** The rule of the configuration that opens a path to visitors, or the widest such rule around it. */
  #opening(method: string, path: string): AccessRule | undefined {
    const { access } = this.#config
    if (access === undefined) return undefined
    const asked = { method, path, alsoMethods: [] }
    const verdict = judgeAccess(access, asked, { person: undefined, now: 0 })
    if (verdict.verdict !== 'allowed') return undefined
    const { rule } = verdict
    const isWider = ({ allow, path, methods }: AccessRule) =>
      allow === 'anyone' &&
      coversRule(path, rule.path) &&
      (methods ?? rule.methods) === rule.methods
    return access.rules.findLast(isWider) ?? rule
  }

  #memberOf(subject: string, groups: readonly string[]): Member {
    const key = JSON.stringify([subject, ...groups])
    const known = this.#members.get(key)
    if (known !== undefined) return known
    const all = [...groups.map(value => ['groups', value] as const), ['users', subject] as const]
    // In a rule `*` stands for any text, so a value with one would let in more people.
    const plain = all.filter(([, value]) => !value.includes('*'))
    const member = { subject, groups: plain.map(([key, value]) => this.#alternative(key, value)) }
    for (const { members } of member.groups) members.add(member)
    this.#members.set(key, member)
    return member
  }

  #alternative(key: 'groups' | 'users', value: string): Alternative {
    const id = JSON.stringify([key, value])
    const made = this.#alternatives.get(id) ?? { key, value, members: new Set() }
    this.#alternatives.set(id, made)
    return made
  }

  #place(raw: string, member: Member, count: number): void {
    const { ambiguous, decoded, folded } = askedPath(raw)
    if (ambiguous) return this.#leave('for paths that servers read in different ways', count)
    const path = encodeURI(decoded).replaceAll('*', '%2A')
    const written = path.slice(1).split('/')
    const names = folded.slice(1).split('/')
    const ends = path.endsWith('/')
    if (names.length !== written.length - (ends && path !== '/' ? 1 : 0)) {
      return this.#leave('for paths with names that are not shown', count)
    }
    if (member.groups.length === 0) return this.#leave('of people whose names have a *', count)
    let folder = this.#root
    for (const [index, name] of names.slice(0, DEEPEST).entries()) {
      if (name === '') break
      folder.folders.add(
        `/${written
          .slice(0, index)
          .map(each => `${each}/`)
          .join('')}`,
      )
      const rest = index === DEEPEST - 1 ? names.slice(index).join('/') : name
      const next = folder.below.get(rest) ?? newFolder()
      folder.below.set(rest, next)
      folder = next
    }
    folder.ends.add(path)
    add(folder.uses, member, count)
  }

  #leave(why: string, count = 1): void {
    this.#leftOut.set(why, (this.#leftOut.get(why) ?? 0) + count)
  }

  #planOf({ below, ends, folders, uses }: Folder): Plan {
    const whole = new Set([...folders, ...[...ends].map(each => each.replace(/\/?$/, '/'))])
    if (below.size === 0) {
      const isFolder = [...ends].some(each => each.endsWith('/'))
      return this.#plan(isFolder ? whole : ends, uses, uses.size)
    }
    const exact = [...ends].map(each => (each.endsWith('/') ? `= ${each}` : each))
    const parts = [...below.values()].map(each => this.#planOf(each))
    if (uses.size > 0) parts.push(this.#plan(exact, uses, uses.size))
    const all: Uses = new Map()
    for (const part of parts) for (const [member, count] of part.uses) add(all, member, count)
    const pairs = parts.reduce((sum, part) => sum + part.pairs, 0)
    const bits = parts.reduce((sum, part) => sum + part.bits, 0)
    const one = this.#plan(whole, all, pairs)
    return one.bits < bits
      ? one
      : { bits, pairs, uses: all, rules: parts.flatMap(({ rules }) => rules) }
  }

  /** A rule for each spelling, all with the same people: an application may take one for another. */
  #plan(paths: Iterable<string>, uses: Uses, pairs: number): Plan {
    const allow = coverOf(uses)
    const people = new Set(allow.flatMap(({ members }) => [...members]))
    const rules = [...paths].map(path => ({ path, allow, uses }))
    return { bits: rules.length * this.#line + pairs * Math.log2(people.size), rules, uses, pairs }
  }
}

/** Stands for those without a session. */
const visitor: Member = { subject: '', groups: [] }

function newFolder(): Folder {
  return { below: new Map(), ends: new Set(), folders: new Set(), uses: new Map() }
}

function add(uses: Uses, member: Member, count = 1): void {
  uses.set(member, (uses.get(member) ?? 0) + count)
}

/** Groups that together have all these members, none without need; users where no group has them. */
function coverOf(uses: Uses): readonly Alternative[] {
  const left = new Set(uses.keys())
  const chosen: Alternative[] = []
  while (left.size > 0) {
    const counts = new Map<Alternative, number>()
    for (const { groups } of left) {
      for (const each of groups) counts.set(each, (counts.get(each) ?? 0) + 1)
    }
    const worth = ([{ key, members }, count]: readonly [Alternative, number]) =>
      key === 'groups' ? count / (SMALL + members.size) : 0
    const [best] = [...counts].reduce((a, b) => (worth(b) > worth(a) ? b : a))
    chosen.push(best)
    for (const member of best.members) left.delete(member)
  }
  const large = [...chosen].sort((a, b) => b.members.size - a.members.size)
  return large.reduce<readonly Alternative[]>((kept, each) => {
    const others = kept.filter(other => other !== each)
    const isNeeded = [...uses.keys()].some(({ groups }) => !groups.some(g => others.includes(g)))
    return isNeeded ? kept : others
  }, chosen)
}

/** What a further group costs, in members of one. */
const SMALL = 5

function linesOf({ path, allow, methods, uses }: Rule): readonly string[] {
  const evidence = (of: ReadonlyArray<readonly [Member, number]>) => {
    const requests = of.reduce((sum, [, count]) => sum + count, 0)
    const people = new Set(of.filter(([each]) => each !== visitor).map(([each]) => each.subject))
    return `# ${requests} requests, ${people.size} persons`
  }
  const lines = [`  - path: ${quoted(path)} ${evidence([...uses])}`]
  if (methods !== undefined) lines.push(`    methods: [${[...methods].join(', ')}]`)
  if (allow === 'anyone') return [...lines, '    allow: anyone']
  const alternatives = allow.map(({ key, value, members }) => {
    const own = [...uses].filter(([member]) => members.has(member))
    return `      - ${key}: ${quoted(value)} ${evidence(own)}`
  })
  return [...lines, '    allow:', ...alternatives]
}

function quoted(text: string): string {
  return /^(?:= )?[/a-z][\w/.@-]*$/i.test(text) &&
    !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(text)
    ? text
    : JSON.stringify(text)
}
