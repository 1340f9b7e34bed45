/**
 * What a development IdP remembers and decides: logins under way, sessions, logouts. Values in, replies out; HTTP is the
 * server's. For development: it trusts everybody on this machine.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { readLogout } from '../../auth/saml/binding/logout-message.ts'
import { logoutRequestXml, logoutResponseXml } from '../../auth/saml/binding/message-xml.ts'
import { readRedirect, redirectAddress } from '../../auth/saml/binding/redirect.ts'
import { decodeBase64 } from '../../auth/saml/core/encoding.ts'
import type { SigningKey } from '../../auth/saml/core/signature.ts'
import { shortName, status } from '../../auth/saml/core/vocabulary.ts'
import { type AnswerName, answers, answerXml } from './answer.ts'
import { metadataXml, type ReadAuthnRequest, readAuthnRequest } from './messages.ts'
import type { Person } from './people.ts'
import type { DevProfile } from './profile.ts'
import { type ServiceProvider, serviceOf } from './service.ts'

export interface ProviderOptions {
  /** Its public origin, without a slash at the end. */
  readonly baseUrl: string
  readonly profile: DevProfile
  readonly people: readonly Person[]
  readonly key: SigningKey
  readonly strangerKey: SigningKey
  /** PEM certificate to encrypt to, asked for at every answer. */
  readonly encryptTo: () => string | undefined
  readonly encryptParts: boolean
  /** Hosts of service providers besides those of this machine. */
  readonly hosts: readonly string[]
  readonly wantSigned: boolean
  readonly clock: Clock
  readonly random: (size: number) => Buffer
}

/** What the server is to send. */
export type Reply =
  | {
      readonly reply: 'page'
      readonly template: string
      readonly view: View
      readonly status?: number
    }
  | { readonly reply: 'redirect'; readonly to: string }
  /** A form that sends itself to a service provider. `session` is the value of a cookie to be set. */
  | {
      readonly reply: 'form'
      readonly action: string
      readonly view: View
      readonly session?: string
    }
  | { readonly reply: 'xml'; readonly xml: string }

type View = Readonly<Record<string, unknown>>

interface Pending {
  readonly to: ServiceProvider
  readonly request: ReadAuthnRequest | undefined
  readonly relayState: string | undefined
}

interface Session {
  readonly id: string
  readonly person: Person
  readonly since: Milliseconds
  /** Who has to be told of its end. */
  readonly services: Map<string, ServiceProvider>
}

/** Logins under way and sessions that are kept; the oldest go first. */
const MOST = 1000

export class DevProvider {
  readonly #options: ProviderOptions
  readonly #pending = new Map<string, Pending>()
  readonly #sessions = new Map<string, Session>()

  constructor(options: ProviderOptions) {
    this.#options = options
  }

  get entityId(): string {
    return this.#options.profile.entityId(this.#options.baseUrl)
  }

  /** The page that says what this is. */
  index(cookie: string | undefined): Reply {
    const { baseUrl, profile, people } = this.#options
    const name = this.#session(cookie)?.person.name ?? ''
    const view = { baseUrl, profile: profile.name, entityId: this.entityId, people, name }
    return { reply: 'page', template: 'index', view: { ...view, known: name !== '' } }
  }

  metadata(): Reply {
    const { baseUrl, profile, key, wantSigned } = this.#options
    const xml = metadataXml({
      entityId: this.entityId,
      certificates: [key.certificate],
      signOn: `${baseUrl}/sso`,
      wantAuthnRequestsSigned: wantSigned,
      logout: profile.singleLogout ? `${baseUrl}/slo` : undefined,
    })
    return { reply: 'xml', xml }
  }

  /** An AuthnRequest by either binding: `query` as it stood in the target, or a form's values. */
  signOn(
    query: string | undefined,
    form: URLSearchParams | undefined,
    cookie: string | undefined,
  ): Reply {
    const message = messageOf(query, form)
    if (typeof message === 'string') return refusal(message)
    let request: ReadAuthnRequest
    try {
      request = readAuthnRequest(message.bytes)
    } catch (error) {
      return refusal(error instanceof Error ? error.message : String(error))
    }
    const to = serviceOf(request.issuer, this.#options.hosts)
    if (typeof to === 'string') return refusal(to)
    if (request.acs !== '' && request.acs !== to.acs) {
      return refusal(`The request wants its answer at ${request.acs}, not at ${to.acs}.`)
    }
    const pending = { to, request, relayState: message.relayState }
    const session = this.#session(cookie)
    if (session !== undefined && !request.forceAuthn)
      return this.#respond(pending, session, 'right')
    return this.#loginPage(pending, '')
  }

  /** A login nobody asked for. */
  unsolicited(entityId: string): Reply {
    const to = serviceOf(entityId, this.#options.hosts)
    if (typeof to === 'string') return refusal(to)
    return this.#loginPage({ to, request: undefined, relayState: undefined }, '')
  }

  /** What the login page sent. */
  logIn(form: URLSearchParams, answer: AnswerName): Reply {
    const pending = this.#pending.get(form.get('login') ?? '')
    if (pending === undefined)
      return refusal('This login is over, or from before a restart. Go back to the application.')
    const one = form.get('one')
    const name = one ?? form.get('name') ?? ''
    const person = this.#options.people.find(candidate => candidate.name === name)
    if (person === undefined || (one === null && person.password !== form.get('password'))) {
      return this.#loginPage(pending, 'There is nobody of that name and password.')
    }
    this.#pending.delete(form.get('login') ?? '')
    const id = this.#id()
    const session: Session = { id, person, since: this.#options.clock.now(), services: new Map() }
    remember(this.#sessions, id, session)
    return this.#respond(pending, session, answer)
  }

  /** A logout message by either binding, from a service provider. */
  logout(
    query: string | undefined,
    form: URLSearchParams | undefined,
    cookie: string | undefined,
  ): Reply {
    const message = messageOf(query, form)
    if (typeof message === 'string') return refusal(message)
    const read = readLogout(message.bytes, {
      certificates: [],
      decryptionKeys: [],
      signedOutside: false,
      allowSha1: false,
    })
    // The signature inside a posted message cannot be checked without the sender's certificate; here nothing depends on it.
    if (!read.ok) return this.#unreadable(message, cookie)
    if (read.kind === 'LogoutResponse') return this.#nextLogout(cookie, shortName(read.status))
    const to = serviceOf(read.issuer ?? '', this.#options.hosts)
    if (typeof to === 'string') return refusal(to)
    const session = this.#session(cookie)
    if (session !== undefined) this.#sessions.delete(session.id)
    const xml = logoutResponseXml({
      ...this.#head(to.slo),
      inResponseTo: read.id,
      status: status.success,
    })
    return this.#redirect(to.slo, 'SAMLResponse', xml, message.relayState)
  }

  /** Logout begun here: one service provider after the other is told. */
  startLogout(cookie: string | undefined): Reply {
    return this.#nextLogout(cookie, '')
  }

  #nextLogout(cookie: string | undefined, said: string): Reply {
    const session = this.#session(cookie)
    const [to] = session?.services.values() ?? []
    if (session === undefined || to === undefined || !this.#options.profile.singleLogout) {
      if (session !== undefined) this.#sessions.delete(session.id)
      return { reply: 'page', template: 'signed-out', view: { said, answered: said !== '' } }
    }
    session.services.delete(to.entityId)
    const nameId = this.#options.profile.nameId(session.person)
    const xml = logoutRequestXml({
      ...this.#head(to.slo),
      nameId: { ...nameId, nameQualifier: undefined, spNameQualifier: undefined },
      sessionIndex: session.id,
    })
    return this.#redirect(to.slo, 'SAMLRequest', xml, undefined)
  }

  #unreadable(message: { readonly bytes: Buffer }, cookie: string | undefined): Reply {
    const response = /<(?:\w+:)?LogoutResponse[\s>]/.test(message.bytes.toString())
    return response ? this.#nextLogout(cookie, '') : refusal('The logout message cannot be read.')
  }

  #redirect(
    to: string,
    name: 'SAMLRequest' | 'SAMLResponse',
    xml: string,
    relayState: string | undefined,
  ): Reply {
    const message = relayState === undefined ? { name, xml } : { name, xml, relayState }
    return { reply: 'redirect', to: redirectAddress(to, message, this.#options.key) }
  }

  #loginPage(pending: Pending, problem: string): Reply {
    const login = this.#id()
    remember(this.#pending, login, pending)
    const ways = Object.entries(answers).map(([name, label]) => ({ name, label }))
    const { people, profile } = this.#options
    const view = {
      login,
      people,
      ways,
      problem,
      wrong: problem !== '',
      profile: profile.name,
      to: pending.to,
    }
    return { reply: 'page', template: 'login', view, status: problem === '' ? 200 : 403 }
  }

  #respond({ to, request, relayState }: Pending, session: Session, answer: AnswerName): Reply {
    const { profile, baseUrl, key, strangerKey, encryptTo, clock, encryptParts } = this.#options
    session.services.set(to.entityId, to)
    const xml = answerXml({
      ...{ answer, person: session.person, to, profile, baseUrl, key, strangerKey },
      ...{ encryptTo: encryptTo(), encryptParts },
      inResponseTo: request?.id,
      sessionIndex: session.id,
      authenticated: session.since,
      now: clock.now(),
      id: () => this.#id(),
    })
    const fields = [{ name: 'SAMLResponse', value: Buffer.from(xml).toString('base64') }]
    if (relayState !== undefined) fields.push({ name: 'RelayState', value: relayState })
    return { reply: 'form', action: to.acs, view: { action: to.acs, fields }, session: session.id }
  }

  #head(destination: string) {
    return { id: this.#id(), issuer: this.entityId, issued: this.#options.clock.now(), destination }
  }

  #session(cookie: string | undefined): Session | undefined {
    return cookie === undefined ? undefined : this.#sessions.get(cookie)
  }

  #id(): string {
    return `_${this.#options.random(16).toString('hex')}`
  }
}

function messageOf(query: string | undefined, form: URLSearchParams | undefined) {
  if (form === undefined) {
    return (
      readRedirect(query) ?? 'There is no SAML message in the address. Start at the application.'
    )
  }
  const encoded = form.get('SAMLRequest') ?? form.get('SAMLResponse') ?? ''
  const bytes = decodeBase64(encoded)
  if (bytes === undefined) return 'The message is not base64.'
  return { bytes, relayState: form.get('RelayState') ?? undefined }
}

function refusal(text: string): Reply {
  return { reply: 'page', template: 'refused', view: { text }, status: 400 }
}

function remember<T>(all: Map<string, T>, id: string, value: T): void {
  all.set(id, value)
  const [oldest] = all.keys()
  if (all.size > MOST && oldest !== undefined) all.delete(oldest)
}
