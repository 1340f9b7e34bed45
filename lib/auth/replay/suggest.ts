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

/** The requests of a member for a path, which is written as rules write it. */
interface Use {
  readonly path: string
  readonly member: Member
  readonly count: number
}

interface Folder {
  readonly below: Map<string, Folder>
  /** Those of the folder itself, in all spellings. */
  readonly uses: Use[]
}

interface Rule {
  readonly path: string
  readonly allow: 'anyone' | readonly Alternative[]
  readonly methods?: ReadonlySet<string> | undefined
  /** The uses that need the rule. */
  readonly uses: readonly Use[]
}

interface Plan {
  readonly bits: number
  readonly rules: readonly Rule[]
  readonly uses: readonly Use[]
}

const MOST_PAIRS = 1_000_000
const DEEPEST = 30

export class Suggestion {
  readonly #config: Config
  readonly #log = new LogReader()
  readonly #alternatives = new Map<string, Alternative>()
  readonly #members = new Map<string, Member>()
  readonly #root: Folder = { below: new Map(), uses: [] }
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
      const uses = [...byPath].flatMap(([path, uses]) =>
        [...uses].map(([member, count]): Use => ({ path, member, count })),
      )
      if (rule !== undefined && uses.some(({ member }) => member === visitor)) {
        open.push({ path: rule.path.written, methods: rule.methods, allow: 'anyone', uses })
      } else for (const use of uses) this.#place(use)
    }
    this.#line = 2 + Math.log2(1 + this.#members.size)
    const { rules } = this.#planOf(this.#root, 0)
    const leftOut = [...this.#leftOut].map(([why, count]) => `# left out: ${count} requests ${why}`)
    const sorted = rules.toSorted((a, b) => (a.path < b.path ? -1 : 1))
    const lines = [...open, ...sorted].flatMap(linesOf)
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
    uses.set(member, (uses.get(member) ?? 0) + 1)
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

  #place({ path: raw, member, count }: Use): void {
    const { ambiguous, decoded, folded } = askedPath(raw)
    if (ambiguous) return this.#leave('for paths that servers read in different ways', count)
    const path = encodeURI(decoded).replaceAll('*', '%2A')
    const names = folded.slice(1).split('/')
    if (
      names.length !==
      path
        .replace(/(?<=.)\/$/, '')
        .slice(1)
        .split('/').length
    ) {
      return this.#leave('for paths with names that are not shown', count)
    }
    if (member.groups.length === 0) return this.#leave('of people whose names have a *', count)
    let folder = this.#root
    for (const [index, name] of names.slice(0, DEEPEST).entries()) {
      if (name === '') break
      const key = index === DEEPEST - 1 ? names.slice(index).join('/') : name
      const next = folder.below.get(key) ?? { below: new Map(), uses: [] }
      folder.below.set(key, next)
      folder = next
    }
    folder.uses.push({ path, member, count })
  }

  #leave(why: string, count = 1): void {
    this.#leftOut.set(why, (this.#leftOut.get(why) ?? 0) + count)
  }

  #planOf(folder: Folder, depth: number): Plan {
    const { below } = folder
    if (below.size === 0) {
      const isFolder = folder.uses.some(({ path }) => path.endsWith('/'))
      return this.#plan(folder.uses, path => (isFolder ? path.replace(/\/?$/, '/') : path))
    }
    const parts = [...below.values()].map(each => this.#planOf(each, depth + 1))
    if (folder.uses.length > 0) {
      parts.push(this.#plan(folder.uses, path => (path.endsWith('/') ? `= ${path}` : path)))
    }
    const uses = parts.flatMap(part => part.uses)
    const bits = parts.reduce((sum, part) => sum + part.bits, 0)
    const whole = this.#plan(uses, path => {
      return `${path
        .split('/')
        .slice(0, depth + 1)
        .join('/')}/`
    })
    return whole.bits < bits ? whole : { bits, uses, rules: parts.flatMap(({ rules }) => rules) }
  }

  /**
   * A rule for each spelling. An application may take a path of a later one for one of an earlier one, which lets the same people in
   * therefore.
   */
  #plan(uses: readonly Use[], ruleFor: (path: string) => string): Plan {
    const paths = [...new Set(uses.map(({ path }) => ruleFor(path)))].sort()
    const needing = paths.map(path => uses.filter(use => ruleFor(use.path) >= path))
    const covers = needing.map(each => coverOf(new Set(each.map(({ member }) => member))))
    const rules = paths.map((path, index): Rule => {
      return { path, allow: covers[index] ?? [], uses: needing[index] ?? [] }
    })
    const people = new Set(covers[0]?.flatMap(({ members }) => [...members]))
    return { bits: rules.length * this.#line + uses.length * Math.log2(people.size), rules, uses }
  }
}

/** Stands for those without a session. */
const visitor: Member = { subject: '', groups: [] }

/** Groups that together have all these members, none without need; users where no group has them. */
function coverOf(all: ReadonlySet<Member>): readonly Alternative[] {
  const left = new Set(all)
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
  const large = chosen.toSorted((a, b) => b.members.size - a.members.size)
  return large.reduce<readonly Alternative[]>((kept, each) => {
    const others = kept.filter(other => other !== each)
    const isNeeded = [...all].some(({ groups }) => !groups.some(g => others.includes(g)))
    return isNeeded ? kept : others
  }, chosen)
}

/** What a further group costs, in members of one. */
const SMALL = 5

function linesOf({ path, allow, methods, uses }: Rule): readonly string[] {
  const lines = [`  - path: ${quoted(path)} ${evidence(uses)}`]
  if (methods !== undefined) lines.push(`    methods: [${[...methods].join(', ')}]`)
  if (allow === 'anyone') return [...lines, '    allow: anyone']
  const alternatives = allow.map(({ key, value, members }) => {
    const own = uses.filter(({ member }) => members.has(member))
    return `      - ${key}: ${quoted(value)} ${evidence(own)}`
  })
  return [...lines, '    allow:', ...alternatives]
}

function evidence(uses: readonly Use[]): string {
  const requests = uses.reduce((sum, { count }) => sum + count, 0)
  const people = new Set(uses.map(({ member }) => member).filter(each => each !== visitor))
  const names = new Set([...people].map(({ subject }) => subject))
  return `# ${requests} requests, ${names.size} persons`
}

function quoted(text: string): string {
  return /^(?:= )?[/a-z][\w/.@-]*$/i.test(text) &&
    !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(text)
    ? text
    : JSON.stringify(text)
}
