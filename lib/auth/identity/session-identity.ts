/**
 * Makes the identity fields of sessions, with their signed identity where it is configured, and remembers them.
 */
import { continueWhenReady } from '../../async/ready.ts'
import { Fields } from '../../http/message/field.ts'
import { tokenField } from '../access/passthrough.ts'
import type { Config } from '../config/config.ts'
import type { Session } from '../session/token.ts'
import { identityFieldNames, identityFields } from './identity-fields.ts'
import type { IdentityTokens, TokenRequest } from './identity-token.ts'

/**
 * The names of the fields that an edge has to take from the check: all identity fields, and the token's field, which the backend must not
 * see.
 */
export function checkedFieldNames(
  config: Pick<Config, 'identityFields' | 'identityToken'>,
): readonly string[] {
  return [...identityFieldNames(config.identityFields, config.identityToken?.field), tokenField]
}

interface SessionIdentityOptions {
  readonly config: Pick<Config, 'identityFields' | 'identityToken'>
  readonly tokens: Pick<IdentityTokens, 'of' | 'ofRequest'>
}

export class SessionIdentity {
  readonly #options: SessionIdentityOptions
  /** Fields of a session with their signed identity: sessions are one object for as long as their token is remembered. */
  readonly #forwarded = new WeakMap<Session, { fields: Fields; token: string | undefined }>()
  readonly #names: readonly string[]
  /** The fields that tell an edge that there is no identity: all identity fields, each of them empty. */
  readonly none: Fields
  /** The fields that edges get for a session, where no identity is signed. */
  readonly #whole = new WeakMap<Session, Fields>()

  constructor(options: SessionIdentityOptions) {
    const { config } = options
    this.#options = options
    this.#names = checkedFieldNames(config)
    this.none = withEmpty(Fields.empty, this.#names)
  }

  /** The identity fields with which the requests of a session are forwarded. */
  of(session: Session): Fields | Promise<Fields> {
    const { config, tokens } = this.#options
    const token = config.identityToken === undefined ? undefined : tokens.of(session)
    return continueWhenReady(token, token => {
      const known = this.#forwarded.get(session)
      if (known !== undefined && known.token === token) return known.fields
      const fields = this.#fields(session, token)
      this.#forwarded.set(session, { fields, token })
      return fields
    })
  }

  /**
   * The identity fields that an edge has to send to the backend for a checked request. Every identity field is among them,
   * empty where there is no value, so that no field of the client takes its place. The signed identity is for this request
   * alone.
   */
  wholeOf(session: Session | undefined, asked: TokenRequest): Fields | Promise<Fields> {
    if (session === undefined) return this.none
    const { config, tokens } = this.#options
    const whole = (token?: string) => withEmpty(this.#fields(session, token), this.#names)
    if (config.identityToken !== undefined) return tokens.ofRequest(session, asked).then(whole)
    const known = this.#whole.get(session)
    if (known !== undefined) return known
    const fields = whole()
    this.#whole.set(session, fields)
    return fields
  }

  #fields(session: Session, token: string | undefined): Fields {
    const { identityFields: settings, identityToken: form } = this.#options.config
    const signed = form && token !== undefined ? { field: form.field, token } : undefined
    return identityFields(session, settings, signed)
  }
}

/** The fields, with an empty field added for each of these names that is missing. */
function withEmpty(fields: Fields, names: readonly string[]): Fields {
  const missing = names.filter(name => !fields.has(name))
  return Fields.fromFlat([...fields.flat, ...missing.flatMap(name => [name, ''])])
}
