/**
 * Asks the gate for its verdict on a request outside the service, with any configuration: for a person the command line
 * describes, or for the requests of a log. Pure.
 */
import { Fields } from '../../http/message/field.ts'
import type { Place } from '../access/own-origin.ts'
import {
  type AccessVerdict,
  judgeAccess,
  neededText,
  type Person,
  placeOfRule,
  wantedBy,
} from '../access/rules.ts'
import { isInScope } from '../access/token-scope.ts'
import type { Config } from '../config/config.ts'
import type { ReadSession } from '../session/token.ts'
import { gate } from './gate.ts'

/** What is asked for, as a request line has it. */
interface Asked extends Place {
  readonly method: string
}

interface Trial extends Asked {
  /** The person; undefined for one who is not signed in. */
  readonly person: Person | undefined
  readonly now: number
}

interface TrialVerdict {
  /** `passes` reaches the backend, `own` is answered here, `login` leads to a login, also of one who is signed in. */
  readonly is: 'passes' | 'own' | 'login' | 'refused'
  /** The verdict of the rules; undefined where the gate does not ask them. */
  readonly access: AccessVerdict | undefined
  /** The reason in words, such as `passthroughPaths: /public/`. */
  readonly because: string
}

export function tryRequest(config: Config, { person, now, ...trial }: Trial): TrialVerdict {
  const session = person && sessionOf(person, now)
  const { method, path, query } = trial
  const request = { method, fields: Fields.empty, version: '1.1' } as const
  const asked = { request, path, query, client: '127.0.0.1', now, instanceId: NO_INSTANCE }
  const found = gate({ ...asked, session: () => session }, config)
  // The gate waits only when it has to read a session, and here the session is given.
  if (found instanceof Promise) throw new TypeError('the gate waits for a session')
  const { access: rules } = config
  const access = rules && judgeAccess(rules, wantedBy(request, trial, rules), { person, now })
  switch (found.verdict) {
    case 'passthrough':
      return { is: 'passes', access: undefined, because: `passthroughPaths: ${found.name}` }
    case 'authenticated':
    case 'anyone':
      return { is: 'passes', access, because: reasonOf(access) }
    case 'login-needed':
      return { is: 'login', access, because: reasonOf(access) }
    case 'refused':
      return { is: 'refused', access, because: reasonOf(access) }
    default:
      return { is: 'own', access: undefined, because: 'authproxy answers this address itself' }
  }
}

/** The configuration in which no rule is only watched. */
export function withoutWatching(config: Config): Config {
  return { ...config, access: config.access && { ...config.access, enforced: undefined } }
}

const NO_INSTANCE = '0'.repeat(32)

/** Whether a token would pass a request, by its name in the log. */
export function tokenPasses(
  { passthroughTokens }: Config,
  name: string,
  request: Asked & { readonly client: string },
): boolean {
  const token = passthroughTokens.find(each => each.name === name)
  if (token === undefined) return false
  return token.scope === undefined || isInScope(token.scope, { ...request, fields: Fields.empty })
}

function reasonOf(access: AccessVerdict | undefined): string {
  if (access === undefined) return 'there are no rules: all who are signed in may'
  const { verdict, rule } = access
  switch (verdict) {
    case 'allowed':
      return typeof rule.allow === 'string'
        ? `it allows ${rule.allow}`
        : 'one of its descriptions fits'
    case 'login':
      return 'it needs a login'
    case 'step-up':
      return access.because === 'age'
        ? 'the login is too old, and is requested again'
        : 'the login is of another context, and that is asked for'
    case 'ambiguous':
      return {
        path: 'servers read the path in different ways',
        spelling: `an application could take the path for ${rule?.path.written ?? 'that of another rule'}`,
        method: 'a method that a field or the query names is not allowed',
      }[access.because]
    case 'refused':
      if (access.because === 'no-rule') return 'no rule is for this path and method'
      if (access.because === 'nobody') return 'it lets no person in'
      return `none of its descriptions fits: ${neededText(access.rule?.allow ?? []).join(' | ')}`
  }
}

export function trialLines(trial: Trial, { is, access, because }: TrialVerdict): readonly string[] {
  const { method, path, person } = trial
  const who = person === undefined ? 'a person who is not signed in' : person.subject
  const words = {
    passes: 'passes',
    own: 'answered here',
    login: 'has to sign in',
    refused: access?.verdict === 'ambiguous' ? 'refused, 400' : 'refused, 403',
  }
  const lines = [`${method} ${path}, ${who}: ${words[is]}`]
  if (access !== undefined) {
    const { rule } = access
    const methods = rule?.methods === undefined ? '' : `, methods ${[...rule.methods].join(', ')}`
    lines.push(
      `${placeOfRule(rule)}${rule === undefined ? '' : `: path ${rule.path.written}${methods}`}`,
    )
  }
  return [...lines, `because ${because}`]
}

/**
 * The session of a person as the gate sees it. The members are written out, because copying them from parts costs more than the
 * judgement.
 */
function sessionOf(person: Person, now: number): ReadSession {
  return {
    subject: person.subject,
    attributes: person.attributes,
    authnInstant: person.authnInstant,
    authnContext: person.authnContext,
    browser: '',
    id: '',
    issuer: '',
    nameId: undefined,
    sessionIndex: undefined,
    identitySettings: '',
    authenticated: now,
    created: now,
    expires: Number.POSITIVE_INFINITY,
    issued: now,
    lapses: Number.POSITIVE_INFINITY,
    kid: '',
  }
}
