/**
 * The link to the identity provider: its metadata, and the verification of its messages with the keys in it, in threads. A signature by
 * none of these keys may mean that the IdP has changed them: then its metadata is asked for again.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { resultInTime } from '../../async/deadline.ts'
import type { Facts } from '../../errors.ts'
import { OriginClient } from '../../http/client/client.ts'
import { singleParent } from '../../http/client/dialling/parents.ts'
import { isPublicAddress } from '../../ip.ts'
import type { LogoutMessage } from '../../saml/binding/logout-message.ts'
import { checkRedirectSignature, type RedirectMessage } from '../../saml/binding/redirect.ts'
import type { IdpMetadata } from '../../saml/metadata/idp-metadata.ts'
import type {
  MayDecrypt,
  ResponseRules,
  VerifiedResponse,
} from '../../saml/response/verify-response.ts'
import type { AssertionFinding } from '../../saml/subject.ts'
import { type MessageReason, type RefusedMessage, responseLimits } from '../../saml/xml/message.ts'
import { publishedFor, type SamlKeyPair, signingKey } from '../keys/dynamic-config.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import { IdpMetadataSource, type SourceParts } from './metadata-source.ts'
import {
  type Client,
  loginBounds,
  logoutBounds,
  WorkerFailure,
  WorkerPool,
  type WorkerReason,
} from './worker/pool.ts'

interface LinkParts extends Omit<SourceParts, 'origin' | 'readerBounds'> {
  readonly keys: Pick<KeyRing, 'saml'>
}

/** The parts that tests replace. */
export interface IdpSubstitutes {
  /** Fetches the metadata; closed with the link. */
  readonly origin?: OriginClient
  /** Verify messages; not closed with the link. */
  readonly verifiers?: Verifiers
}

/** The pools of threads that verify messages. Logins and logouts have a pool each, so that neither waits for the other. */
interface Verifiers {
  readonly login: WorkerPool
  readonly logout: WorkerPool
}

/** A message that is not of the IdP, or not fit. */
export interface RefusedByLink {
  readonly code: MessageReason | WorkerReason
  readonly facts?: Facts
  readonly findings?: readonly AssertionFinding[]
  readonly cause?: unknown
}

type NotVerified = { readonly ok: false; readonly refusal: RefusedByLink }

/** Checks a message with these keys. */
type Check<Verified> = (rules: ResponseRules) => Promise<Verified | RefusedMessage>

/** A logout message by either binding; only HTTP-Redirect has a signature beside the message. */
export type SentLogout = RedirectMessage & { readonly binding: 'redirect' | 'post' }

/** Counts the tries to have an answer decrypted. */
interface Tries {
  readonly mayDecrypt: MayDecrypt
  readonly asked: () => boolean
  readonly verified: () => void
}

/** The time a logout message waits for new metadata of the IdP. Anyone can send one with a wrong signature. */
const LONGEST_WAIT: Milliseconds = 5000

export class IdpLink {
  readonly #parts: LinkParts
  readonly metadata: IdpMetadataSource
  readonly #verifiers: Verifiers
  /** Ends the threads and the downloads. */
  readonly close: () => Promise<void>

  private constructor(
    parts: LinkParts,
    made: Pick<IdpLink, 'metadata' | 'close'> & { readonly verifiers: Verifiers },
  ) {
    this.#parts = parts
    this.metadata = made.metadata
    this.#verifiers = made.verifiers
    this.close = made.close
  }

  /** Throws a MetadataFailure when the IdP is not known, not even from the cache. */
  static async open(parts: LinkParts, substitutes: IdpSubstitutes = {}): Promise<IdpLink> {
    const { clock, config } = parts
    const { idpMetadataProxy: parent } = config()
    const origin =
      substitutes.origin ??
      new OriginClient({
        clock,
        isPublic: isPublicAddress,
        limits: { perOrigin: 2, free: 2 },
        parents: parent && singleParent(parent),
      })
    const metadata = await IdpMetadataSource.open({ ...parts, origin }).catch(async error => {
      await origin.close()
      throw error
    })
    const own = {
      login: new WorkerPool(clock, loginBounds),
      logout: new WorkerPool(clock, logoutBounds),
    }
    const close = async () => {
      metadata.close()
      await Promise.all([own.login.close(), own.logout.close(), origin.close()])
    }
    return new IdpLink(parts, { metadata, verifiers: substitutes.verifiers ?? own, close })
  }

  /** The IdP; undefined once its metadata has expired. */
  get current(): IdpMetadata | undefined {
    return this.metadata.current()
  }

  /** Whether AuthnRequests are signed: when the IdP's metadata asks for it, unless configured. */
  get signsRequests(): boolean {
    const { requestSigning } = this.#parts.config()
    return requestSigning === 'auto'
      ? this.metadata.last?.wantAuthnRequestsSigned === true
      : requestSigning === 'always'
  }

  /** The key that signs what we send. */
  get signingKey(): SamlKeyPair | undefined {
    return signingKey(this.#parts.keys.saml(), this.#parts.clock.now(), publishedFor.saml)
  }

  /** Has a thread ready: a browser has gone to the IdP. */
  awaitAnswer(): void {
    this.#verifiers.login.warm()
  }

  /**
   * Verifies the answer to a login, and never waits: how long an answer takes must not tell whether it was decrypted. `renewing` says
   * that the metadata of the IdP is asked for again, or has been meanwhile, so that the login may succeed when it begins again. It
   * says so of each encrypted answer alike, whether it was decrypted or not.
   */
  async verifyLogin(
    encoded: string,
    client: Client,
    tries: Tries,
  ): Promise<VerifiedResponse | (NotVerified & { readonly renewing: boolean })> {
    const used = this.current
    const verdict = await this.#check(rules =>
      this.#verifiers.login.run({ kind: 'response', encoded, rules }, client, tries.mayDecrypt),
    )
    if (verdict.ok) {
      tries.verified()
      return verdict
    }
    const { code } = verdict.refusal
    const doubtful = code === 'signature_invalid' || code === 'encryption_tries' || tries.asked()
    const renewing = doubtful && this.metadata.refreshForUnknownKey(used) !== undefined
    return { ...verdict, renewing }
  }

  /**
   * Verifies a logout message. Waits for new metadata of the IdP and checks once more when the signature is by an unknown key: nothing
   * in the message is encrypted. With HTTP-Redirect only the signature over the query counts, and `signed` speaks of that one.
   */
  async verifyLogout(message: SentLogout, client: Client) {
    const used = this.current
    const check = (rules: ResponseRules) => this.#readLogout(message, rules, client)
    const verdict = await this.#check(check)
    if (verdict.ok || verdict.refusal.code !== 'signature_invalid') return verdict
    const refresh = this.metadata.refreshForUnknownKey(used)
    const isNew = refresh && (await resultInTime(refresh, this.#parts.clock, LONGEST_WAIT))
    return isNew === true ? this.#check(check) : verdict
  }

  async #readLogout(
    message: SentLogout,
    rules: ResponseRules,
    client: Client,
  ): Promise<LogoutMessage> {
    const { bytes, binding } = message
    const because = checkRedirectSignature(message, rules)
    const signed = because === undefined
    if (!signed && because !== 'signature_missing') {
      const finding = {
        what: 'SigAlg and Signature',
        expected:
          'a signature by a key of the IdP, with RSA, RSA-PSS or ECDSA and SHA-256 or better',
        received: message.signature?.algorithm ?? '(nothing)',
      }
      return { ok: false, because, problem: 'the signature over the query is not valid', finding }
    }
    const job = { kind: 'logout', bytes, rules: { ...rules, signedOutside: signed } } as const
    const read = await this.#verifiers.logout.run(job, client)
    return read.ok && binding === 'redirect' ? { ...read, signed } : read
  }

  async #check<Verified extends { readonly ok: true }>(
    check: Check<Verified>,
  ): Promise<Verified | NotVerified> {
    const { allowSha1, responseSize } = this.#parts.config()
    try {
      const verdict = await check({
        certificates: (this.current?.keys ?? []).map(key => key.certificate),
        decryptionKeys: this.#parts.keys.saml().map(pair => pair.privateKey),
        limits: responseLimits(responseSize),
        allowSha1,
      })
      if (verdict.ok) return verdict
      const { ok, because: code, finding, ...facts } = verdict
      const findings = finding === undefined ? [] : [{ ...finding, ok }]
      return { ok, refusal: { code, facts, findings } }
    } catch (error) {
      if (!(error instanceof WorkerFailure)) throw error
      return { ok: false, refusal: { code: error.code, cause: error } }
    }
  }
}
