/**
 * The people a development IdP knows, from a YAML file or one of its own for each kind of identity.
 */
import { type LoadResult, loadConfigFile } from '../../lib/config/config-file.ts'
import { type Check, mismatch, readResult } from '../../lib/config/reading.ts'
import { text } from '../../lib/config/setting-kinds.ts'
import {
  checkSettings,
  group,
  kind,
  listOf,
  listOfGroups,
  optionalSetting,
  requiredSetting,
} from '../../lib/config/settings.ts'
import type { DevUser } from './profile.ts'

export interface Person extends DevUser {
  readonly password: string
  /** A phrase for the login page. */
  readonly about: string
}

/** One for each kind of identity a gateway meets. */
export const people: readonly Person[] = [
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
  { name: 'cleo', password: 'cleo', about: 'no attributes, only the NameID' },
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

const phrase = kind({ name: 'text', json: { type: 'string', minLength: 1 } }, found =>
  typeof found === 'string' && found !== '' ? readResult(found) : mismatch(found, 'text'),
)

const settings = group('People of a development identity provider.', {
  users: listOfGroups('list of people', {
    name: requiredSetting(phrase, 'write "- name: ada"').says('For the login.'),
    password: optionalSetting(phrase).says('The name unless given.'),
    about: optionalSetting(phrase).says('A phrase for the login page.'),
    email: optionalSetting(phrase).says('The e-mail address.'),
    displayName: optionalSetting(phrase).says('The name to show.'),
    givenName: optionalSetting(phrase).says('The first name.'),
    surname: optionalSetting(phrase).says('The family name.'),
    sAMAccountName: optionalSetting(phrase).says('The account name in a directory.'),
    groups: optionalSetting(listOf(text, 'texts')).says('Names of groups.'),
  }).says('One for each user who can log in.'),
})

/** Reads a file of people: a list under `users`. */
export function readPeople(path: string): Promise<LoadResult<readonly Person[]>> {
  return loadConfigFile(path, check)
}

const check: Check<readonly Person[]> = found => {
  const checked = checkSettings(settings)(found)
  if (!checked.ok) return checked
  const { users } = checked.value
  const value = users.map(user => ({
    ...user,
    password: user.password ?? user.name,
    about: user.about ?? user.email ?? 'no e-mail',
  }))
  if (value.length > 0) return { ok: true, value, warnings: [] }
  const none = 'expected a list of people under users:, such as "users: [{ name: ada }]"'
  return { ok: false, problems: [{ path: [], at: 'key', text: none }], warnings: [] }
}
