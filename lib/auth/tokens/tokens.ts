/**
 * Tokens that a signed-in person makes for programs: another proof of who asks than the cookie of a session.
 *
 * # What a token is
 * A JWT with the identity of the login behind it, signed with the keys of sessions, with a type and an audience of its own (session/token.ts).
 * It names its paths and methods, and its end. It opens nothing by being on a list; the list of ended sessions (session/revocation.ts) ends
 * it. The record of tokens (record.ts) says what the page shows. It proves nothing: a line too many in it gives no access.
 *
 * # A request with a token, in this order, which is the argument for its security
 * 1. The gate answers its own paths before it looks at tokens, so no token makes or ends a token, logs out, or asks who is signed in.
 * 2. One field, `X-Authproxy-Authorization`, in one line, in one form. A cookie, a query or another field is never read for a token. A request with
 *    this field is judged by it alone: a wrong token never falls back to the cookie beside it, or to a login.
 * 3. The tokens of the operator are compared first (access/passthrough.ts).
 * 4. The JWT: one algorithm, our keys, type, issuer, audience, end, form. A verified token is remembered, and 5 to 7 are asked each time.
 * 5. The session behind it: its key is in force, its identity provider and the settings of identities are the same, it is younger than
 *    `tokens.longest`, not from the future, and not ended: by its ID, its user, its NameID, or with all tokens.
 * 6. Its paths and methods, compared as rules are.
 * 7. `tokens.access`, then `access`, as for the person.
 * 8. The request passes with the identity of the login, without our cookies. Nothing is renewed, no form is kept, and WebSockets and streams are
 *    asked about again each second, and at each reload (session/ending.ts).
 *
 * # Making one, in this order
 * 1. The session of a browser, with the cookie that names the browser, and a form from this page, sent by a document: no other site, no script and
 *    no service worker of the application, and no program that was given the session alone.
 * 2. The form is read within a bound and a deadline. Each path and method has to be one that the rules allow the person now.
 * 3. Behind all waits the session is looked at again, and the moment of the token is taken in the same step: a logout while the form was on its way
 *    leaves no token, and a later one ends it.
 * 4. The line of the record is on disk before the answer: a crash between them leaves a line without a token, never a token without a line.
 * 5. The answer shows the token once, in a page that the application's scripts cannot read (`sandbox`).
 *
 * # In doubt
 * - A record that is damaged, or not there where no store is shared, ends all tokens that were made before.
 * - A login that brings other attributes than the one behind a token ends it: a group that is gone does not live on in a token. Instances tell each
 *   other of it by the shared store. Without one, a restart forgets the logins, not the tokens.
 */
import { createHash } from 'node:crypto'
import { day, type Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../../http/message/field.ts'
import { recentEntries } from '../../recent.ts'
import type { PeopleTokens, TokenParts } from '../features/feature.ts'
import { mayWithToken, type Proven } from '../gate/gate.ts'
import { marksOf } from '../session/revocation.ts'
import { type BrowserLogin, type Sessions, userHash } from '../session/sessions.ts'
import { type ReadSession, type Session, SessionTokens, tokenText } from '../session/token.ts'
import { type Problem, problems, type TokenForm, tokenPage } from './page.ts'
import { openRecord, recordsIn, type TokenRecord } from './record.ts'

const MOST_OF_ONE = 20
const MOST_IN_ALL = 10_000
/** Tokens that a person may make in a day, ended ones too: each end takes room in the list of ended sessions. */
const MOST_A_DAY = 100
/** The longest token: servers in front take fields of 8K by default. */
const LONGEST = 7000
/** The allowed difference between the clocks of instances. */
const SKEW: Milliseconds = 5 * 60_000

export async function openTokens(parts: TokenParts): Promise<PeopleTokens> {
  const { config, clock, log, shared, revocations } = parts
  const { configPath, saml } = config()
  const onLoss = () => void revocations.add({ everyToken: true })
  const record = await openRecord(`${configPath}.tokens`, { ...parts, onLoss })
  const isLive = (token: TokenRecord) => token.expires > clock.now() && !revocations.has(token)
  record.sweep(isLive)
  const end = async ({ id, name }: TokenRecord, because: 'person' | 'login') => {
    log.info('token ended', { program: `${id} ${name}`, because })
    await revocations.add({ sessionId: id })
  }
  /** The attributes of the last login of each user, as a digest; and the number of tokens made, by day and user. */
  const lastLogins = recentEntries<string, string>(20_000)
  const made = recentEntries<string, number>(20_000)
  return {
    noteLogin({ user, session }: BrowserLogin) {
      if (session === undefined) return
      const attributes = digestOf(session)
      lastLogins.set(user, attributes)
      shared?.keepLogin(user, attributes)
      const endOthers = (tokens: readonly TokenRecord[]) => {
        for (const token of tokens) {
          if (token.attributes !== attributes && isLive(token)) void end(token, 'login')
        }
      }
      endOthers(record.ofUser(user))
      void shared?.tokensOf(user, 'later').then(lines => endOthers(recordsIn(lines)))
    },
    front(sessions, page) {
      const jwts = new SessionTokens({ ...parts, entityId: saml.entityId, use: 'token' })
      const known = new WeakMap<Fields, ReadSession>()
      const own: Parts = { ...parts, sessions, record, isLive, end, jwts, lastLogins, made, known }
      const acts = {
        tokensOf: (session: Session) => tokensOf(own, session),
        make: (session: ReadSession, form: TokenForm) => make(own, session, form),
        end: (token: TokenRecord) => end(token, 'person'),
        async endAll(session: Session) {
          const { subject: user } = session
          log.info('sessions of a user ended', { user, by: 'person' })
          // By its ID a token ends whatever the clocks say, that of the instance where it was made too.
          for (const token of await tokensOf(own, session)) await end(token, 'person')
          await revocations.add({ user })
        },
      }
      return {
        proof: (presented, fields) => {
          const session = known.get(fields)
          return session === undefined ? verify(own, presented, fields) : standing(own, session)
        },
        page: tokenPage({ config, clock, page, ...acts }),
      }
    },
    close: () => record.close(),
  }
}

interface Parts extends TokenParts {
  readonly sessions: Pick<Sessions, 'whyEnded'>
  readonly record: Awaited<ReturnType<typeof openRecord>>
  readonly isLive: (token: TokenRecord) => boolean
  readonly end: (token: TokenRecord, because: 'person' | 'login') => Promise<void>
  readonly jwts: SessionTokens
  /** The sessions behind verified tokens, by the fields that they came in. */
  readonly known: WeakMap<Fields, ReadSession>
  readonly lastLogins: Pick<Map<string, string>, 'get'>
  readonly made: { get(of: string): number | undefined; set(of: string, count: number): unknown }
}

/** Step 4 of a request, and 5. Equal fields of a connection come as one object, whose token is verified once. */
async function verify(parts: Parts, presented: string, fields: Fields): Promise<Proven> {
  const session = await parts.jwts.verify(presented)
  if (typeof session === 'string') return session === 'expired' ? session : 'unknown'
  parts.known.set(fields, session)
  return standing(parts, session)
}

/** Step 5 of a request. */
function standing({ sessions, clock }: Parts, session: ReadSession): Proven {
  if (session.created > clock.now() + SKEW) return 'unknown'
  const because = sessions.whyEnded(session)
  if (because === undefined) return session
  return because === 'expired' ? 'expired' : 'ended'
}

/** The latest lines of a person in the store, which are safe there. It drops older ones, also of tokens that live, when many are made and ended. */
const AT_THE_FRONT = 100

/** The live tokens of a person, of all instances, the oldest first. Those that the store may drop, or has lost, are written there again. */
async function tokensOf({ record, shared, isLive }: Parts, { subject }: Session) {
  const user = userHash(subject)
  const lines = await shared?.tokensOf(user, 'now')
  const all = [...recordsIn(lines), ...record.ofUser(user)].filter(isLive)
  const byId = new Map(all.map(token => [token.id, token]))
  const front = new Set(recordsIn(lines?.slice(0, AT_THE_FRONT)).map(({ id }) => id))
  for (const token of lines === undefined ? [] : byId.values()) {
    if (!front.has(token.id)) shared?.keepToken(user, JSON.stringify(token))
  }
  return [...byId.values()].sort((a, b) => a.created - b.created)
}

/** Makes a token out of a form that is right by itself. */
async function make(
  parts: Parts,
  session: ReadSession,
  form: TokenForm,
): Promise<{ token: string } | Problem> {
  const { config, clock, random, jwts, record, sessions, shared, log, lastLogins } = parts
  const { length } = await tokensOf(parts, session)
  const user = userHash(session.subject)
  const attributes = digestOf(session)
  // From here on nothing waits until the moment of the token is taken.
  if (sessions.whyEnded(session) !== undefined) return problems.session
  const { name, paths, methods } = form
  const id = random(16).toString('hex')
  const created = clock.now()
  const expires = created + form.days * day
  // It ends neither with the browser nor with the session index of the login.
  const without = { browser: '', sessionIndex: undefined }
  const about = { name, paths, methods, scope: undefined }
  const token = { ...session, ...without, id, created, expires, token: about }
  const refused = paths
    .flatMap(path => methods.map(method => ({ method, path, now: created })))
    .find(asked => !mayWithToken(asked, token, config()))
  if (refused !== undefined) {
    return { ...problems.rules, words: { request: `${refused.method} ${refused.path}` } }
  }
  const text = await jwts.issue(token, expires)
  if (text.length > LONGEST) return problems.large
  // Nothing waits between these counts and the new record, or many forms at once would make more.
  if (record.sweep(parts.isLive) >= MOST_IN_ALL) return problems.record
  if (Math.max(length, record.ofUser(user).length) >= MOST_OF_ONE) return problems.several
  const today = `${Math.floor(created / day)} ${user}`
  const count = parts.made.get(today) ?? 0
  if (count >= MOST_A_DAY) return problems.often
  parts.made.set(today, count + 1)
  const marks = marksOf(token)
  const kept = { id, user, attributes, name, paths, methods, created, expires, marks }
  if (!(await record.add(kept))) return problems.record
  shared?.keepToken(user, JSON.stringify(kept))
  // A login is written first and reads the tokens then. The token was written first, so one of both finds the other.
  const latest = (await shared?.lastLoginOf(user)) ?? lastLogins.get(user) ?? attributes
  if (latest !== attributes) {
    await parts.end(kept, 'login')
    return problems.session
  }
  const until = new Date(expires)
  log.info('token made', { user: session.subject, program: tokenText(token), until })
  return { token: text }
}

/** A digest of the attributes of a login, by which logins are compared. */
function digestOf({ attributes }: Session): string {
  const lists = [...attributes].map(([name, values]) => JSON.stringify([name, [...values].sort()]))
  const text = lists.sort().join()
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
}
