/**
 * Checks how large a session with many groups is, and makes sessions of that size for other checks.
 * The code that makes real sessions makes them, with a key that is thrown away.
 */
import { setCookieName } from '../../../http/message/cookie.ts'
import { Fields } from '../../../http/message/field.ts'
import type { Config } from '../../config/config.ts'
import { writeToken } from '../../session/cookie.ts'
import { SessionTokens } from '../../session/token.ts'
import { type Answer, doubtfulFinding, type Finding, goodFinding } from '../check.ts'
import { directProbe, type Examination, oncePerExamination } from '../facts.ts'

/** The cookies of a session in the browser. */
export interface Sample {
  readonly groups: number
  /** The bytes as `session.cookieSize` counts them. */
  readonly bytes: number
  /** How many cookies there are; 0 when the session is too large for any number of them. */
  readonly cookies: number
  readonly field: string
}

/** Numbers of groups to try when none is given: more do not fit a session of the default size. */
const EXAMPLES: readonly number[] = [20, 150]

export async function size(of: Examination): Promise<Answer> {
  return (await samples(of)).map(sample => judgeSample(of.config, sample))
}

/** The attributes that the last login brought and nothing read. */
export async function attributes(of: Examination): Promise<Answer> {
  return judgeUnread((await directProbe(of)).answer?.unreadAttributes ?? [])
}

/** Judges the names of attributes that nothing reads, each with what it is like. */
export function judgeUnread(unread: readonly string[]): Answer {
  if (unread.length === 0) return []
  const found = `nothing reads ${unread.join(', ')}`
  return unread.some(name => name.includes(' (like '))
    ? doubtfulFinding(
        found,
        'those that are like a known one were most likely meant to be it: identity.looseNames: true reads them too; or name them under identity.attributes',
      )
    : goodFinding(`${found}; identity.attributes would`)
}

/** Whether a user in so many groups can log in. */
export function judgeSample({ session }: Config, sample: Sample): Finding {
  const { groups, bytes, cookies } = sample
  const size = `with ${groups} ${groups === 1 ? 'group' : 'groups'} ${bytes} bytes of cookies`
  if (fits(session, sample)) return goodFinding(`${size} in ${cookies}`)
  return doubtfulFinding(
    `${size}, more than session.cookieSize (${session.cookieSize})`,
    'such users are refused: keep fewer groups with identity.groups, shorter ones with identity.groupForm, or fewer attributes with identity.only',
  )
}

function fits({ cookieSize }: Config['session'], { bytes, cookies }: Sample): boolean {
  return cookies > 0 && bytes <= cookieSize
}

/** The sessions to look at. */
export const samples = oncePerExamination(async of => {
  const counts = of.groups === undefined ? EXAMPLES : [of.groups]
  return Promise.all(counts.map(count => makeSample(of, count)))
})

/** The largest session that a browser would accept; undefined when all are too large. */
export async function largestSample(of: Examination): Promise<Sample | undefined> {
  const fitting = (await samples(of)).filter(sample => fits(of.config.session, sample))
  return fitting.sort((a, b) => b.bytes - a.bytes)[0]
}

async function makeSample(of: Examination, groups: number): Promise<Sample> {
  const { config, clock, random } = of
  const now = clock.now()
  const id = () => random(16).toString('hex')
  // A group as Entra names it: 36 random characters, which compress least of all common names.
  const group = () => id().replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  const key = { kid: random(8).toString('hex'), key: random(32), created: 0, retires: undefined }
  const tokens = new SessionTokens({
    keys: { generation: 0, session: () => [key] },
    clock,
    entityId: config.saml.entityId,
  })
  const token = await tokens.issue(
    {
      browser: 'A'.repeat(22),
      id: id(),
      subject: 'user@example.org',
      attributes: new Map([
        ['email', ['user@example.org']],
        ['displayname', ['Example User']],
        ['groups', Array.from({ length: groups }, group)],
      ]),
      issuer: 'https://idp.example.org/metadata',
      nameId: undefined,
      sessionIndex: undefined,
      authenticated: now,
      identitySettings: config.identityDigest,
      created: now,
      expires: now + config.session.lifetime,
    },
    now + config.session.idle,
  )
  const held = { maxAge: 1, tag: random(4).toString('hex'), requestFields: Fields.empty }
  const written = writeToken(token, { ...held, limit: Number.POSITIVE_INFINITY })
  if ('tooLarge' in written) return { groups, bytes: written.tooLarge, cookies: 0, field: '' }
  const pairs = written.all('Set-Cookie').map(line => {
    const name = setCookieName(line)
    return `${name}=${line.slice(name.length + 1, line.indexOf(';'))}`
  })
  const bytes = pairs.reduce((sum, pair) => sum + pair.length, 0)
  return { groups, bytes, cookies: pairs.length, field: pairs.join('; ') }
}
