/**
 * `authproxy doctor`: looks at an instance from outside and from inside and says what is wrong and how to mend it. Every
 * check stands by itself and none of them changes anything.
 */
import { randomBytes, X509Certificate } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { type Milliseconds, systemClock } from '../clock.ts'
import { explainError } from '../errors.ts'
import { parseDate } from '../http/date.ts'
import { Fields } from '../http/field.ts'
import { OriginClient, type OriginResponse } from '../http/origin.ts'
import { formatUri, parseAuthority, parseUri, type TargetUri } from '../http/target.ts'
import type { Config } from './config.ts'
import { checkSaveable, readDynamicConfig } from './dynamic-config.ts'
import { instanceField } from './instance-id.ts'
import { SessionTokens } from './session/token.ts'

/** What one check came to. */
export interface Diagnosis {
  readonly what: string
  readonly state: 'right' | 'doubtful' | 'wrong'
  readonly found: string
  readonly mend?: string
}

const DEADLINE: Milliseconds = 10_000

/** The checks, one after the other, in the order in which things go wrong. */
export async function* diagnose(config: Config): AsyncGenerator<Diagnosis> {
  yield { what: 'configuration', state: 'right', found: `${config.baseUrl}, no problems` }
  yield await keys(config)
  yield await names(config)
  yield await backend(config)
  yield* await edge(config)
  yield* await idp(config)
  yield* cookies(config)
}

async function keys(config: Config): Promise<Diagnosis> {
  const what = 'dynamic configuration'
  try {
    await checkSaveable(config.configPath)
    const found = await readDynamicConfig(config.configPath)
    if (found === undefined) {
      return { what, state: 'right', found: 'not there yet; the first start makes it' }
    }
    const [pair] = found.saml
    const ends = pair === undefined ? 'unknown' : new X509Certificate(pair.certificate).validTo
    if (found.entityId !== config.saml.entityId) {
      return {
        what,
        state: 'wrong',
        found: `was made for ${found.entityId}`,
        mend: 'give every instance a configPath of its own; after a change of domain, delete the file',
      }
    }
    return { what, state: 'right', found: `${config.configPath}, certificate until ${ends}` }
  } catch (error) {
    return {
      what,
      state: 'wrong',
      found: explainError(error),
      mend: 'run as the service user, and make the directory its own',
    }
  }
}

async function names(config: Config): Promise<Diagnosis> {
  const what = 'name of the public host'
  const authority = parseAuthority(config.domain, 443)
  if ('problem' in authority) return { what, state: 'wrong', found: authority.problem }
  try {
    const found = await lookup(authority.host, { all: true })
    return { what, state: 'right', found: found.map(({ address }) => address).join(', ') }
  } catch (error) {
    return {
      what,
      state: 'doubtful',
      found: explainError(error),
      mend: 'browsers have to find it; this machine need not',
    }
  }
}

async function backend(config: Config): Promise<Diagnosis> {
  const what = 'backend'
  const uri = { ...config.target, path: '/' }
  const outcome = await ask(uri, { trusted: config.targetVerify, host: config.domain })
  if ('error' in outcome) {
    return {
      what,
      state: 'wrong',
      found: explainError(outcome.error),
      mend: 'is it running, and is proxy.targetURL right? With https: proxy.targetCertificates names its authority',
    }
  }
  return { what, state: 'right', found: `${formatUri(uri)} answers ${outcome.status}` }
}

async function edge(config: Config): Promise<readonly Diagnosis[]> {
  const what = 'through the edge'
  const uri = parseUri(`${config.baseUrl}/saml/metadata.xml`)
  if ('problem' in uri) return [{ what, state: 'wrong', found: uri.problem }]
  const outcome = await ask(uri, { trusted: true, host: undefined })
  if ('error' in outcome) {
    return [
      {
        what,
        state: 'doubtful',
        found: explainError(outcome.error),
        mend: 'the public address has to reach this service over https; from here it does not, or the service is not running',
      },
    ]
  }
  const metadata = outcome.content.includes(config.saml.entityId)
  const through: Diagnosis = metadata
    ? { what, state: 'right', found: `${formatUri(uri)} is answered by this service` }
    : {
        what,
        state: 'wrong',
        found: `${formatUri(uri)} answers ${outcome.status}, and not with our metadata`,
        mend: 'the edge has to forward every path to proxy.listenAddress, Host preserved',
      }
  const looping: Diagnosis = outcome.fields.has(instanceField)
    ? { what: 'loop', state: 'wrong', found: 'the answer passed an instance twice' }
    : { what: 'loop', state: 'right', found: 'none seen' }
  return [through, looping]
}

async function idp(config: Config): Promise<readonly Diagnosis[]> {
  const what = 'IdP metadata'
  const { idpMetadata } = config.saml
  if (idpMetadata.from === 'file') {
    try {
      const text = await readFile(idpMetadata.path, 'utf8')
      return [metadata(what, text)]
    } catch (error) {
      return [
        {
          what,
          state: 'wrong',
          found: explainError(error),
          mend: 'idpMetadataFile has to be readable for the service user',
        },
      ]
    }
  }
  const uri = parseUri(idpMetadata.url)
  if ('problem' in uri) return [{ what, state: 'wrong', found: uri.problem }]
  const outcome = await ask(uri, { trusted: true, host: undefined })
  if ('error' in outcome) {
    return [
      {
        what,
        state: 'wrong',
        found: explainError(outcome.error),
        mend: 'open the address from this machine; a first start needs it',
      },
    ]
  }
  if (outcome.status !== 200) {
    return [
      {
        what,
        state: 'wrong',
        found: `${formatUri(uri)} answers ${outcome.status}`,
        mend: 'only 200 is accepted; redirects have to be written out in idpMetadataURL',
      },
    ]
  }
  return [metadata(what, outcome.content), clockOf(outcome)]
}

function metadata(what: string, text: string): Diagnosis {
  if (!/IDPSSODescriptor/.test(text)) {
    return {
      what,
      state: 'wrong',
      found: 'it describes no identity provider',
      mend: 'is it the metadata of a service provider, or a login page?',
    }
  }
  const [, validUntil] = /validUntil="([^"]+)"/.exec(text) ?? []
  const left = validUntil === undefined ? undefined : Date.parse(validUntil) - Date.now()
  if (left !== undefined && left < 0) {
    return {
      what,
      state: 'wrong',
      found: `was valid until ${validUntil}`,
      mend: 'ask whoever runs the identity provider for a new one',
    }
  }
  const valid = validUntil === undefined ? '' : `, valid until ${validUntil}`
  return { what, state: 'right', found: `${text.length} characters${valid}` }
}

function clockOf({ fields }: Outcome): Diagnosis {
  const what = 'clock against the IdP'
  const date = parseDate(fields.get('Date') ?? '', Date.now())
  if (date === undefined) return { what, state: 'doubtful', found: 'the IdP names no time' }
  const apart = Math.round((Date.now() - date) / 1000)
  const found = `${Math.abs(apart)} s ${apart >= 0 ? 'ahead' : 'behind'}`
  return Math.abs(apart) > 30
    ? {
        what,
        state: 'wrong',
        found,
        mend: 'synchronise the clocks (NTP); assertions are good for minutes',
      }
    : { what, state: 'right', found }
}

/** How large a session gets with groups. */
async function* cookies(config: Config): AsyncGenerator<Diagnosis> {
  const key = { kid: 'doctor', key: randomBytes(32), created: 0, retires: undefined }
  const tokens = new SessionTokens({
    keys: { generation: 0, session: () => [key] },
    clock: systemClock,
    entityId: () => config.saml.entityId,
  })
  for (const count of [20, 150, 500]) {
    const groups = Array.from({ length: count }, () =>
      randomBytes(16)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
    )
    const now = systemClock.now()
    const token = await tokens.issue(
      {
        id: randomBytes(16).toString('hex'),
        subject: 'somebody@example.org',
        attributes: new Map([['groups', groups]]),
        issuer: 'https://idp.example.org/metadata',
        nameId: undefined,
        sessionIndex: undefined,
        authenticated: now,
        created: now,
        expires: now + config.session.lifetime,
      },
      now + config.session.idle,
    )
    const fits = token.length < config.session.cookieSize
    yield {
      what: `session with ${count} group identifiers`,
      state: fits ? 'right' : 'doubtful',
      found: `${token.length} bytes of cookie`,
      ...(fits
        ? {}
        : {
            mend: 'more than session.cookieSize: such users are refused; keep fewer groups with identity.groups',
          }),
    }
  }
}

interface Outcome {
  readonly status: number
  readonly fields: Fields
  readonly content: string
}

async function ask(
  uri: TargetUri,
  how: { readonly trusted: boolean; readonly host: string | undefined },
): Promise<Outcome | { readonly error: unknown }> {
  const origin = new OriginClient({ clock: systemClock, isPublic: () => true, verify: how.trusted })
  try {
    const response = await origin.request({
      method: 'GET',
      uri,
      fields: Fields.of(['Accept', '*/*'], ['User-Agent', 'authproxy-doctor']),
      signal: AbortSignal.timeout(DEADLINE),
      trusted: true,
      ...(how.host === undefined ? {} : { host: how.host }),
    })
    return { status: response.status, fields: response.fields, content: await textOf(response) }
  } catch (error) {
    return { error }
  } finally {
    await origin.close()
  }
}

async function textOf(response: OriginResponse): Promise<string> {
  let text = ''
  for await (const block of response.content) {
    text += block.toString('latin1')
    if (text.length > 10 * 1024 * 1024) break
  }
  return text
}
