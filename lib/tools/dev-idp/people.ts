/**
 * The people a development IdP knows: those of a YAML file, or a cast of its own with one for each kind of identity.
 */
import { readFile } from 'node:fs/promises'
import { decodeConfig, type Loaded } from '../../config/config-file.ts'
import type { Check, Remark } from '../../config/reading.ts'
import { isRecord } from '../../json.ts'
import type { DevUser } from './profile.ts'

export interface Person extends DevUser {
  readonly password: string
  /** What is particular about them, a phrase; for the login page. */
  readonly about: string
}

/** One for each kind of identity a gateway has to cope with. */
export const cast: readonly Person[] = [
  {
    name: 'ada',
    password: 'ada',
    about: 'e-mail, display name, groups',
    email: 'ada@example.org',
    displayName: 'Ada Łovelace',
    givenName: 'Ada',
    surname: 'Łovelace',
    sAMAccountName: 'alovelace',
    groups: ['staff', 'engineering', 'Research, Applied'],
  },
  {
    name: 'bert',
    password: 'bert',
    about: 'an account name and no e-mail',
    sAMAccountName: 'bert01',
    groups: ['staff'],
  },
  { name: 'cleo', password: 'cleo', about: 'no attributes: the NameID alone' },
  {
    name: 'dora',
    password: 'dora',
    about: '300 groups',
    email: 'dora@example.org',
    groups: Array.from(
      { length: 300 },
      (_, index) => `CN=Group ${index},OU=Department ${index % 7},DC=corp,DC=example,DC=org`,
    ),
  },
]

const texts = ['name', 'password', 'about', 'email', 'displayName', 'givenName', 'surname'] as const
const known: readonly string[] = [...texts, 'sAMAccountName', 'groups']

/**
 * Reads a file of people: a list under `users`, each with `name` and, as wanted, `password` (the name when it is missing),
 * `email`, `displayName`, `givenName`, `surname`, `sAMAccountName`, `groups`.
 */
export async function readPeople(path: string): Promise<Loaded<readonly Person[]>> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { ok: false, problems: [`${path}: ${why}`], warnings: [] }
  }
  return decodeConfig(text, path, check)
}

const check: Check<readonly Person[]> = found => {
  const problems: Remark[] = []
  const users = isRecord(found) ? found['users'] : undefined
  if (!Array.isArray(users) || users.length === 0) {
    const text = 'expected a list of people under users:, such as "users: [{ name: ada }]"'
    return { ok: false, problems: [{ path: [], at: 'key', text }], warnings: [] }
  }
  const people = users.flatMap((entry: unknown, index) => {
    const person = readPerson(entry, (key, at, text) =>
      problems.push({ path: ['users', index, ...key], at, text }),
    )
    return person === undefined ? [] : [person]
  })
  return problems.length > 0
    ? { ok: false, problems, warnings: [] }
    : { ok: true, value: people, warnings: [] }
}

type Complain = (key: readonly string[], at: Remark['at'], text: string) => void

function readPerson(entry: unknown, complain: Complain): Person | undefined {
  if (!isRecord(entry)) {
    complain([], 'value', 'expected a person, such as { name: ada, email: ada@example.org }')
    return undefined
  }
  for (const key of Object.keys(entry)) {
    if (!known.includes(key)) complain([key], 'key', `unknown; known are ${known.join(', ')}`)
  }
  const read: Record<string, string> = {}
  for (const key of [...texts, 'sAMAccountName']) {
    const value = entry[key]
    if (value === undefined) continue
    if (typeof value === 'string' && value !== '') read[key] = value
    else complain([key], 'value', 'expected text')
  }
  const { name, password, about, ...rest } = read
  const groups = readGroups(entry['groups'], complain)
  if (name === undefined) {
    complain([], 'value', 'has no name')
    return undefined
  }
  const described = about ?? (rest['email'] === undefined ? 'no e-mail' : rest['email'])
  return { ...rest, name, password: password ?? name, about: described, ...(groups && { groups }) }
}

function readGroups(found: unknown, complain: Complain): readonly string[] | undefined {
  if (found === undefined) return undefined
  if (Array.isArray(found) && found.every((group): group is string => typeof group === 'string')) {
    return found
  }
  complain(['groups'], 'value', 'expected a list of texts')
  return undefined
}
