/**
 * Decides what a development IdP answers, and remembers its logins, sessions and logouts. It knows no sockets.
 * It hands out every password it accepts, so it is for development only.
 */
import type { Clock, Milliseconds } from '../../lib/async/clock.ts'
import { readLogout } from '../../lib/saml/binding/logout-message.ts'
import { logoutRequestXml, logoutResponseXml } from '../../lib/saml/binding/message-xml.ts'
import { readRedirect, redirectAddress } from '../../lib/saml/binding/redirect.ts'
import type { SigningKey } from '../../lib/saml/signature/sign.ts'
import { decodeBase64 } from '../../lib/saml/xml/encoding.ts'
import { shortName, status } from '../../lib/saml/xml/vocabulary.ts'
import {
  metadataXml,
  type ReadAuthnRequest,
  readAuthnRequest,
  type ServiceProvider,
  serviceOf,
} from './messages.ts'
import type { Person } from './people.ts'
import { type DevNameId, nameIdOf, type ProfileName, profiles } from './profile.ts'
import { type AssertionValues, responseWays, responseXml, writeResponse } from './response.ts'
import { type IdpRequest, type Page, type Reply, sessionCookie } from './server.ts'

/** The rules by which a development IdP answers. */
export interface DevIdpRules {
  readonly profile: ProfileName
  readonly people: readonly Person[]
  /** Hosts of service providers apart from those of this machine. */
  readonly hosts: readonly string[]
  /** Whether the metadata asks for signed requests. */
  readonly wantSigned: boolean
  /** PEM certificate to encrypt to; read for every answer. */
  readonly encryptTo: () => string | undefined
  /** Whether the name and every attribute are encrypted instead of the whole assertion. */
  readonly encryptParts: boolean
}

interface ProviderOptions extends DevIdpRules {
  /** Its public origin, without a slash at the end. */
  readonly baseUrl: string
  readonly key: SigningKey
  readonly strangerKey: SigningKey
  readonly page: Page
  readonly clock: Clock
  readonly random: (size: number) => Buffer
}

interface Pending {
  readonly to: ServiceProvider
  readonly request: ReadAuthnRequest | undefined
  readonly relayState: string | undefined
}

interface Session {
  readonly id: string
  readonly person: Person
  readonly since: Milliseconds
  /** The way of answering that was chosen at the login. */
  readonly way: string
  /** Service providers that have to learn of its end, by entity ID. */
  readonly services: Map<string, { readonly to: ServiceProvider; readonly nameId: DevNameId }>
}

/** Logins under way, and sessions, that are kept; the oldest are dropped first. */
const MOST = 1000
const VALID: Milliseconds = 300_000
/**
 * The time for which a session answers in the chosen way. A gateway that does not know the key of an answer begins the login
 * again by itself.
 */
const AS_CHOSEN: Milliseconds = 10_000

export class DevProvider {
  readonly #options: ProviderOptions
  readonly #pending = new Map<string, Pending>()
  readonly #sessions = new Map<string, Session>()
  readonly #routes = new Map<string, (asked: IdpRequest) => Reply>([
    ['/', asked => this.#index(asked)],
    ['/metadata', () => this.#metadata()],
    ['/sso', asked => this.#signOn(asked)],
    ['/start', asked => this.#unsolicited(asked)],
    ['/login', asked => this.#logIn(asked)],
    ['/slo', asked => this.#logout(asked)],
    ['/logout', asked => this.#nextLogout(asked, '')],
  ])

  constructor(options: ProviderOptions) {
    this.#options = options
  }

  get #profile() {
    return profiles[this.#options.profile]
  }

  get #entityId(): string {
    return this.#profile.entityId(this.#options.baseUrl)
  }

  /** The reply to a request for `path`. */
  answer(path: string, asked: IdpRequest): Reply {
    const reply = this.#routes.get(path)
    return reply?.(asked) ?? this.#refusal('There is no such page.', 404)
  }

  #index(asked: IdpRequest): Reply {
    const { baseUrl, profile, people } = this.#options
    const name = this.#session(asked)?.person.name ?? ''
    return this.#options.page('index', { baseUrl, profile, people, name, known: name !== '' })
  }

  #metadata(): Reply {
    const { baseUrl, key, wantSigned } = this.#options
    const content = metadataXml({
      entityId: this.#entityId,
      certificates: [key.certificate],
      signOn: `${baseUrl}/sso`,
      wantAuthnRequestsSigned: wantSigned || this.#profile.wantSigned,
      forDevelopment: true,
      logout: this.#profile.singleLogout ? `${baseUrl}/slo` : undefined,
    })
    const fields = { 'Content-Type': 'application/samlmetadata+xml' }
    return { status: 200, fields, content }
  }

  /** An AuthnRequest by either binding. */
  #signOn(asked: IdpRequest): Reply {
    const message = messageOf(asked)
    if (typeof message === 'string') return this.#refusal(message)
    let request: ReadAuthnRequest
    try {
      request = readAuthnRequest(message.bytes)
    } catch (error) {
      return this.#refusal(error instanceof Error ? error.message : String(error))
    }
    const to = serviceOf(request.issuer, this.#options.hosts)
    if (typeof to === 'string') return this.#refusal(to)
    if (request.acs !== '' && request.acs !== to.acs) {
      return this.#refusal(`The request wants its answer at ${request.acs}, not at ${to.acs}.`)
    }
    const pending = { to, request, relayState: message.relayState }
    const session = this.#session(asked)
    if (session === undefined || request.forceAuthn) {
      // The answer to a request that forbids to ask the person, when there is no other way.
      const failed = { status: status.responder, innerStatus: status.noPassive }
      return request.isPassive ? this.#failed(pending, failed) : this.#loginPage(pending, '')
    }
    const fresh = this.#options.clock.now() - session.since < AS_CHOSEN
    return this.#respond(pending, session, fresh ? session.way : 'right')
  }

  /** A login that starts here, without a request. */
  #unsolicited({ query }: IdpRequest): Reply {
    const entityId = new URLSearchParams(query).get('service') ?? ''
    const to = serviceOf(entityId, this.#options.hosts)
    if (typeof to === 'string') return this.#refusal(to)
    return this.#loginPage({ to, request: undefined, relayState: undefined }, '')
  }

  /** Answers the form of the login page. */
  #logIn({ form = new URLSearchParams() }: IdpRequest): Reply {
    const login = form.get('login') ?? ''
    const pending = this.#pending.get(login)
    if (pending === undefined) {
      return this.#refusal('This login is no longer known. Go back to the application.')
    }
    const clicked = form.get('one')
    const name = clicked ?? form.get('name') ?? ''
    const person = this.#options.people.find(candidate => candidate.name === name)
    if (person === undefined || (clicked === null && person.password !== form.get('password'))) {
      return this.#loginPage(pending, 'The name or the password is wrong.')
    }
    this.#pending.delete(login)
    const id = this.#id()
    const way = form.get('answer') ?? 'right'
    const since = this.#options.clock.now()
    const session: Session = { id, person, since, way, services: new Map() }
    remember(this.#sessions, id, session)
    return this.#respond(pending, session, way)
  }

  /** A logout message by either binding. A signature is not checked: nothing here depends on the sender. */
  #logout(asked: IdpRequest): Reply {
    const message = messageOf(asked)
    if (typeof message === 'string') return this.#refusal(message)
    const rules = { certificates: [], decryptionKeys: [], signedOutside: false, allowSha1: false }
    const read = readLogout(message.bytes, rules)
    if (!read.ok) {
      const response = /<(?:\w+:)?LogoutResponse[\s>]/.test(message.bytes.toString())
      if (response) return this.#nextLogout(asked, '')
      return this.#refusal('The logout message cannot be read.')
    }
    if (read.kind === 'LogoutResponse') return this.#nextLogout(asked, shortName(read.status))
    const to = serviceOf(read.issuer ?? '', this.#options.hosts)
    if (typeof to === 'string') return this.#refusal(to)
    this.#sessions.delete(this.#session(asked)?.id ?? '')
    const xml = logoutResponseXml({
      ...this.#head(to.slo),
      inResponseTo: read.id,
      status: status.success,
    })
    const { relayState } = message
    const state = relayState === undefined ? {} : { relayState }
    return this.#redirect(to.slo, { name: 'SAMLResponse', xml, ...state })
  }

  /** Tells the next service provider of a logout that started here; `said` is the status the last one answered. */
  #nextLogout(asked: IdpRequest, said: string): Reply {
    const session = this.#session(asked)
    const [service] = session?.services.values() ?? []
    if (session === undefined || service === undefined || !this.#profile.singleLogout) {
      this.#sessions.delete(session?.id ?? '')
      return this.#options.page('signed-out', { said, answered: said !== '' })
    }
    const { to, nameId } = service
    session.services.delete(to.entityId)
    const xml = logoutRequestXml({
      ...this.#head(to.slo),
      nameId: { ...nameId, nameQualifier: undefined, spNameQualifier: undefined },
      sessionIndex: session.id,
    })
    return this.#redirect(to.slo, { name: 'SAMLRequest', xml })
  }

  #redirect(to: string, message: Parameters<typeof redirectAddress>[1]): Reply {
    const Location = redirectAddress(to, message, this.#options.key)
    return { status: 303, fields: { Location }, content: '' }
  }

  #loginPage(pending: Pending, problem: string): Reply {
    const login = this.#id()
    remember(this.#pending, login, pending)
    const { people, profile } = this.#options
    const answers = [...responseWays].map(([name, { label }]) => ({ name, label }))
    const view = { login, people, ways: answers, problem, wrong: problem !== '', profile }
    return this.#options.page(
      'login',
      { ...view, to: pending.to },
      { status: problem === '' ? 200 : 403 },
    )
  }

  #respond({ to, request, relayState }: Pending, session: Session, way: string): Reply {
    const { key, strangerKey, encryptTo, encryptParts } = this.#options
    const profile = this.#profile
    const asks = { format: request?.nameIdFormat, login: session.id.slice(1) }
    const nameId = nameIdOf(profile, session.person, asks)
    if (nameId === undefined) {
      const refused = { status: status.requester, innerStatus: status.invalidNameIdPolicy }
      return this.#failed({ to, request, relayState }, refused)
    }
    session.services.set(to.entityId, { to, nameId })
    const certificate = encryptTo()
    const head = { ...this.#head(to.acs), inResponseTo: request?.id }
    const assertion: AssertionValues = {
      ...head,
      id: this.#id(),
      recipient: to.acs,
      audience: to.entityId,
      authenticated: session.since,
      sessionIndex: session.id,
      // The person has just authenticated in the requested way.
      context: request?.contexts[0],
      nameId,
      attributes: profile.attributes(session.person),
      notBefore: head.issued + profile.notBefore,
      notOnOrAfter: head.issued + VALID,
    }
    const right = {
      response: head,
      assertion,
      signs: profile.signs,
      key,
      encryptParts,
      encryption: profile.encryption,
      ...(certificate !== undefined && { encryptTo: certificate }),
    }
    const xml = writeResponse(responseWays.get(way)?.change(right, strangerKey) ?? right)
    const cookie = `${sessionCookie}=${session.id}; Path=/; HttpOnly; SameSite=Lax`
    return this.#answerForm(to.acs, xml, relayState, { fields: { 'Set-Cookie': cookie } })
  }

  #failed(
    { to, request, relayState }: Pending,
    failed: { readonly status: string; readonly innerStatus: string },
  ): Reply {
    const head = { ...this.#head(to.acs), inResponseTo: request?.id, ...failed }
    return this.#answerForm(to.acs, responseXml(head, ''), relayState)
  }

  #answerForm(action: string, xml: string, relayState: string | undefined, more = {}): Reply {
    const fields = [{ name: 'SAMLResponse', value: Buffer.from(xml).toString('base64') }]
    if (relayState !== undefined) fields.push({ name: 'RelayState', value: relayState })
    return this.#options.page('form', { action, fields }, more)
  }

  #head(destination: string) {
    const issued = this.#options.clock.now()
    return { id: this.#id(), issuer: this.#entityId, issued, destination }
  }

  #session({ session }: IdpRequest): Session | undefined {
    return this.#sessions.get(session ?? '')
  }

  #id(): string {
    return `_${this.#options.random(16).toString('hex')}`
  }

  #refusal(text: string, status = 400): Reply {
    return this.#options.page('refused', { text }, { status })
  }
}

function messageOf({ query, form }: IdpRequest) {
  const missing = 'There is no SAML message in the address. Start at the application.'
  if (form === undefined) return readRedirect(query) ?? missing
  const encoded = form.get('SAMLRequest') ?? form.get('SAMLResponse') ?? ''
  const bytes = decodeBase64(encoded)
  if (bytes === undefined) return 'The message is not base64.'
  return { bytes, relayState: form.get('RelayState') ?? undefined }
}

function remember<T>(all: Map<string, T>, id: string, value: T): void {
  all.set(id, value)
  const [oldest] = all.keys()
  if (all.size > MOST && oldest !== undefined) all.delete(oldest)
}
