/**
 * How large a session gets with so many groups, made by the code that makes real ones, with a key that is thrown away. Groups
 * are identifiers such as Entra sends: 36 random characters, the largest for their number that are common.
 */
import type { Clock } from '../../../async/clock.ts'
import { setCookieName } from '../../../http/message/cookie.ts'
import { Fields } from '../../../http/message/field.ts'
import type { Config } from '../../config/config.ts'
import { writeToken } from '../../session/cookie.ts'
import { SessionTokens } from '../../session/token.ts'
import { type Diagnosis, doubtful, right } from '../check.ts'

/** A session in the browser. */
export interface Sample {
  readonly groups: number
  /** Bytes of its cookies as `session.cookieSize` counts them, and how many cookies they are. */
  readonly bytes: number
  readonly cookies: number
  /** Value of the Cookie field it is sent with. */
  readonly field: string
}

export interface SampleParts {
  readonly clock: Clock
  readonly random: (size: number) => Buffer
}

/** Some and many, as examples when nobody says how many groups there are. */
const EXAMPLES: readonly number[] = [20, 150, 500]

/** The sessions to look at. */
export function samples(
  config: Config,
  groups: number | undefined,
  parts: SampleParts,
): Promise<readonly Sample[]> {
  const counts = groups === undefined ? EXAMPLES : [groups]
  return Promise.all(counts.map(count => sample(config, count, parts)))
}

async function sample(config: Config, groups: number, parts: SampleParts): Promise<Sample> {
  const { clock, random } = parts
  const key = { kid: random(8).toString('hex'), key: random(32), created: 0, retires: undefined }
  const tokens = new SessionTokens({
    keys: { generation: 0, session: () => [key] },
    clock,
    entityId: () => config.saml.entityId,
  })
  const now = clock.now()
  const attributes = new Map([
    ['email', ['somebody@example.org']],
    ['displayname', ['Somebody Example']],
    ['groups', Array.from({ length: groups }, () => identifier(random))],
  ])
  const token = await tokens.issue(
    {
      id: random(16).toString('hex'),
      subject: 'somebody@example.org',
      attributes,
      issuer: 'https://idp.example.org/metadata',
      nameId: undefined,
      sessionIndex: undefined,
      authenticated: now,
      created: now,
      expires: now + config.session.lifetime,
    },
    now + config.session.idle,
  )
  const held = { maxAge: 1, tag: random(4).toString('hex'), held: Fields.empty }
  const written = writeToken(token, { ...held, limit: Number.POSITIVE_INFINITY })
  if (!written.fits) return { groups, bytes: written.bytes, cookies: 0, field: '' }
  const pairs = written.lines.all('Set-Cookie').map(line => {
    const name = setCookieName(line)
    return `${name}=${line.slice(name.length + 1, line.indexOf(';'))}`
  })
  const bytes = pairs.reduce((sum, pair) => sum + pair.length, 0)
  return { groups, bytes, cookies: pairs.length, field: pairs.join('; ') }
}

function identifier(random: (size: number) => Buffer): string {
  const hex = random(16).toString('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Whether somebody in so many groups gets in. */
export function judgeSample({ session }: Config, sample: Sample): Diagnosis {
  const { groups, bytes, cookies } = sample
  const what = `session with ${groups} ${groups === 1 ? 'group' : 'groups'}`
  const size = `${bytes} bytes of cookies`
  if (cookies === 0 || bytes > session.cookieSize) {
    return doubtful(
      what,
      `${size}, more than session.cookieSize (${session.cookieSize})`,
      'such users are refused: keep fewer groups with identity.groups, shorter ones with identity.groupForm, or fewer attributes with identity.only',
    )
  }
  return right(what, `${size} in ${cookies}`)
}

/** The largest sample that a browser would be given; undefined when all are too large. */
export function largestFitting({ session }: Config, all: readonly Sample[]): Sample | undefined {
  const fitting = all.filter(({ bytes, cookies }) => cookies > 0 && bytes <= session.cookieSize)
  return fitting.sort((a, b) => b.bytes - a.bytes)[0]
}
