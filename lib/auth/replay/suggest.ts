/**
 * Suggests rules of `access` that allow the use in a log: each allows groups below a path, no two are for the same path, and each is
 * needed by a request of the log. It does no I/O.
 *
 * # How
 * - The used paths are a tree of folders. A folder becomes one rule, or is left to its parts, whichever is shorter to say: a rule
 *   costs `rule` bits, and a use (a person and a path) the bits that tell its person from all whom the rule lets in. So one
 *   person at one page is no reason for a rule, and five administrators where forty people go elsewhere are.
 * - Groups are chosen to cover the people of a folder: few groups, and small ones. People whom no group covers are named.
 */
import { askedPath } from '../access/path-rule.ts'
import { type LoggedRequest, LogReader } from './log-reader.ts'

/** A person with the groups of a login. */
interface Member {
  readonly subject: string
  readonly lines: readonly Line[]
}

/** A line of a rule that lets people in. */
interface Line {
  readonly key: 'groups' | 'users'
  readonly value: string
  readonly members: Set<Member>
}

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
  readonly allow: readonly Line[]
  /** The uses that need the rule. */
  readonly uses: readonly Use[]
}

interface Plan {
  readonly bits: number
  readonly rules: readonly Rule[]
  readonly uses: readonly Use[]
}

/** The answers of an application to a person who may not see something, or to an address that it does not have. */
const REFUSALS: ReadonlySet<unknown> = new Set([401, 403, 404, 410])

const MOST_USES = 1_000_000
const DEEPEST = 30
/** Spellings of a path or a folder. Each takes a rule, and a client may invent them. */
const MOST_SPELLINGS = 20

export class Suggestion {
  readonly #log = new LogReader()
  readonly #members = new Map<string, Member>()
  readonly #lines = new Map<string, Line>()
  /** Requests by path and member. */
  readonly #used = new Map<string, Map<Member, number>>()
  #uses = 0
  readonly #spellings = new Map<string, Set<string>>()
  readonly #leftOut = new Map<string, number>()

  take(line: string): void {
    const found = this.#log.read(line)
    if (found !== undefined && 'isLetIn' in found && found.isLetIn) this.#request(found)
  }

  report(): readonly string[] {
    const missing = this.#log.missing(['groups'])
    if (missing !== undefined) return [`# ${missing}`]
    const root: Folder = { below: new Map(), uses: [] }
    for (const [path, members] of this.#used) {
      for (const [member, count] of members) {
        const use = { path: path.replaceAll('*', '%2A'), member, count }
        place(root, askedPath(path).folded.slice(1).split('/'), use)
      }
    }
    const { rules } = planOf(root, 0, 2 + Math.log2(1 + this.#members.size))
    const leftOut = [...this.#leftOut].map(([why, count]) => `# left out: ${count} requests ${why}`)
    const sorted = rules.toSorted((a, b) => (a.path < b.path ? -1 : 1))
    return [`# from ${this.#log.lines} lines`, ...leftOut, 'access:', ...sorted.flatMap(linesOf)]
  }

  #request({ path: raw, who, person, line }: LoggedRequest): void {
    const groups = person?.attributes.get('groups')
    const { ambiguous, decoded, folded } = askedPath(raw)
    if (String(line['because']).startsWith('passthrough-')) return
    if (who === undefined) return this.#leave('of visitors: keep the rules that allow anyone')
    if (groups === undefined)
      return this.#leave('whose login with its groups (log.groups) is not in the log')
    // Whom the application itself refuses needs no rule.
    if (REFUSALS.has(line['status'])) return this.#leave('that the application refused')
    const path = ambiguous ? '' : encodeURI(decoded)
    // A name without a visible character has no name in the folded path.
    const isWhole =
      `${folded}/`.split('/').length === `${path}/`.replace('//', '/').split('/').length
    if (ambiguous || !isWhole) return this.#leave('for paths that no rule can name')
    const spellings = this.#spellings.get(folded) ?? new Set()
    if (spellings.size === MOST_SPELLINGS && !spellings.has(path)) {
      return this.#leave('for paths of many spellings')
    }
    this.#spellings.set(folded, spellings.add(path))
    const member = this.#memberOf(who, groups)
    if (member.lines.length === 0) return this.#leave('of people whom no rule can name')
    const members = this.#used.get(path) ?? new Map<Member, number>()
    if (!members.has(member)) this.#uses += 1
    if (this.#uses > MOST_USES) return this.#leave('because the log has too many paths')
    this.#used.set(path, members.set(member, (members.get(member) ?? 0) + 1))
  }

  #memberOf(subject: string, groups: readonly string[]): Member {
    const key = JSON.stringify([subject, ...groups])
    const known = this.#members.get(key)
    if (known !== undefined) return known
    const all = [...groups.map(value => ['groups', value] as const), ['users', subject] as const]
    // In a rule `*` stands for any text, so a value with one would let in more people. No rule has an empty value.
    const plain = all.filter(([, value]) => /^[^*]+$/.test(value))
    const member = { subject, lines: plain.map(([key, value]) => this.#line(key, value)) }
    for (const { members } of member.lines) members.add(member)
    this.#members.set(key, member)
    return member
  }

  #line(key: 'groups' | 'users', value: string): Line {
    const id = `${key} ${value}`
    const line = this.#lines.get(id) ?? { key, value, members: new Set() }
    this.#lines.set(id, line)
    return line
  }

  #leave(why: string): void {
    this.#leftOut.set(why, (this.#leftOut.get(why) ?? 0) + 1)
  }
}

function place(folder: Folder, [name = '', ...more]: readonly string[], use: Use, depth = 1): void {
  if (name === '') return void folder.uses.push(use)
  const [key, rest] = depth === DEEPEST ? [[name, ...more].join('/'), []] : [name, more]
  const next = folder.below.get(key) ?? { below: new Map(), uses: [] }
  folder.below.set(key, next)
  place(next, rest, use, depth + 1)
}

/** The rules for a folder and what is below, where a rule costs so many bits. */
function planOf({ below, uses: own }: Folder, depth: number, rule: number): Plan {
  if (below.size === 0) {
    const isFolder = own.some(({ path }) => path.endsWith('/'))
    return rulesFor(own, path => (isFolder ? path.replace(/\/?$/, '/') : path), rule)
  }
  const parts = [...below.values()].map(each => planOf(each, depth + 1, rule))
  if (own.length > 0) {
    parts.push(rulesFor(own, path => (path.endsWith('/') ? `= ${path}` : path), rule))
  }
  const uses = parts.flatMap(part => part.uses)
  const bits = parts.reduce((sum, part) => sum + part.bits, 0)
  const upTo = (path: string) => path.split('/', depth + 1).join('/')
  const whole = rulesFor(uses, path => `${upTo(path)}/`, rule)
  return whole.bits < bits ? whole : { bits, uses, rules: parts.flatMap(({ rules }) => rules) }
}

/**
 * A rule for each spelling. An application may take a path of a later one for one of an earlier one, which lets the same people in
 * therefore.
 */
function rulesFor(uses: readonly Use[], ruleFor: (path: string) => string, rule: number): Plan {
  const paths = [...new Set(uses.map(({ path }) => ruleFor(path)))].sort()
  if (paths.length > MOST_SPELLINGS) return { bits: Infinity, rules: [], uses }
  const rules = paths.map((path): Rule => {
    const needing = uses.filter(use => ruleFor(use.path) >= path)
    return { path, allow: coverOf(needing), uses: needing }
  })
  const people = new Set(rules[0]?.allow.flatMap(({ members }) => [...members]))
  return { bits: rules.length * rule + uses.length * Math.log2(people.size), rules, uses }
}

/** Groups that together have these people, none without need; users where no group has them. */
function coverOf(uses: readonly Use[]): readonly Line[] {
  const left = new Set(uses.map(({ member }) => member))
  const covered = new Map([...left].map(member => [member, 0]))
  const counts = new Map<Line, number>()
  const chosen: Line[] = []
  const addTo = <K>(map: Map<K, number>, key: K, by: number) =>
    map.set(key, (map.get(key) ?? 0) + by)
  const worth = (line: Line) =>
    line.key === 'groups' ? (counts.get(line) ?? 0) / (FURTHER + line.members.size) : 0
  const choose = (lines: readonly Line[]) => {
    const best = lines.reduce((a, b) => (worth(b) > worth(a) ? b : a))
    chosen.push(best)
    for (const member of best.members) {
      if (covered.has(member)) addTo(covered, member, 1)
      if (left.delete(member)) for (const line of member.lines) addTo(counts, line, -1)
    }
  }
  for (const { lines } of left) for (const line of lines) addTo(counts, line, 1)
  while ([...counts].some(([{ key }, count]) => key === 'groups' && count > 1)) {
    choose([...counts.keys()])
  }
  // No group has two of these people.
  for (const { lines } of left) choose(lines)
  return chosen
    .toSorted((a, b) => b.members.size - a.members.size)
    .filter(({ members }) => {
      const own = [...members].filter(member => covered.has(member))
      if (own.some(member => covered.get(member) === 1)) return true
      for (const member of own) addTo(covered, member, -1)
      return false
    })
}

/** What a further group costs, in members of one. */
const FURTHER = 5

function linesOf({ path, allow, uses }: Rule): readonly string[] {
  const lines = allow.map(({ key, value, members }) => {
    const own = uses.filter(({ member }) => members.has(member))
    return `      - ${key}: ${JSON.stringify(value)} ${evidence(own)}`
  })
  return [`  - path: ${JSON.stringify(path)} ${evidence(uses)}`, '    allow:', ...lines]
}

function evidence(uses: readonly Use[]): string {
  const requests = uses.reduce((sum, { count }) => sum + count, 0)
  return `# ${requests} requests, ${new Set(uses.map(({ member }) => member.subject)).size} people`
}
