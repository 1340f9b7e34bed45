/**
 * The configuration of one instance as the rest of the service sees it. What its file may say, with defaults and manual, is
 * told in settings.ts; how one becomes the other in load-config.ts. Durations are milliseconds, sizes bytes.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import type { LogLevel } from '../../log/log.ts'
import type { PassthroughToken } from '../access/passthrough.ts'
import type { IdentityRules } from '../identity/identity.ts'
import type { IdentityFieldRules } from '../identity/identity-fields.ts'

/** Settings that concern SAML, read and checked. Durations are milliseconds. */
export interface SamlConfig {
  /** Public host name. */
  readonly domain: string
  /** `https://<domain>`, without a slash at the end. */
  readonly baseUrl: string
  /** `https://<domain>/saml/metadata` */
  readonly entityId: string
  /** `https://<domain>/saml/acs` */
  readonly acsUrl: string
  /** `https://<domain>/saml/slo` */
  readonly sloUrl: string
  readonly idpMetadata:
    | { readonly from: 'url'; readonly url: string }
    | { readonly from: 'file'; readonly path: string }
  /** Which entity of an aggregate; undefined when the document has to hold one IdP only. */
  readonly idpEntityId: string | undefined
  /** PEM file whose certificates the metadata has to be signed with; undefined: the signature is not checked. */
  readonly idpMetadataCertificate: string | undefined
  /** Where remote metadata is kept between starts: beside the dynamic file. */
  readonly metadataCacheFile: string
  readonly requestSigning: 'auto' | 'always' | 'never'
  readonly nameIdFormat: string | undefined
  readonly idpInitiated: boolean
  readonly forceAuthn: boolean
  /** Requested authentication contexts; none are requested when empty. */
  readonly authnContext: readonly string[]
  readonly authnContextComparison: 'exact' | 'minimum' | 'maximum' | 'better'
  readonly clockSkew: Milliseconds
  readonly assertionAge: Milliseconds
  /** For a person to come back from the IdP. */
  readonly loginTime: Milliseconds
  /** Whether signatures over SHA-1 are taken. */
  readonly allowSha1: boolean
  /** Whether a LogoutRequest without signature ends a session (compatibility, logged loudly). */
  readonly allowUnsignedLogout: boolean
  /** Bytes of a form post that may be kept for its replay; 0 keeps none. */
  readonly stashLimit: number
}

export interface Config {
  readonly instance: string
  /** Public host name, with its port when that is not 443. */
  readonly domain: string
  /** `https://<domain>` */
  readonly baseUrl: string
  readonly listen: ListenAddress
  readonly target: TargetUri
  readonly targetVerify: boolean
  /** PEM file of authorities for the backend's certificate. */
  readonly targetCertificates: string | undefined
  readonly trustedProxies: readonly string[]
  readonly webSocketOrigins: readonly string[]
  readonly passthroughPaths: readonly string[]
  readonly passthroughTokens: readonly PassthroughToken[]
  /** The dynamic configuration file. */
  readonly configPath: string
  readonly saml: SamlConfig
  readonly session: {
    readonly lifetime: Milliseconds
    readonly idle: Milliseconds
    readonly cookieSize: number
    readonly revocation: boolean
  }
  readonly identity: IdentityRules
  readonly identityFields: IdentityFieldRules
  /** The signed identity for the backend; undefined: none is sent. Its audience is the public origin unless told. */
  readonly identityToken: { readonly audience: string | undefined } | undefined
  readonly keyOverlap: Milliseconds
  readonly timeouts: {
    readonly connect: Milliseconds
    readonly response: Milliseconds
    readonly content: Milliseconds
    readonly tunnel: Milliseconds
    readonly clientHead: Milliseconds
    readonly clientContent: Milliseconds
    readonly clientTaking: Milliseconds
    readonly clientIdle: Milliseconds
    readonly drain: Milliseconds
  }
  readonly limits: {
    readonly head: number
    readonly fields: number
    readonly responseHead: number
    readonly connections: number
    readonly backendConnections: number
  }
  readonly admin: ListenAddress | undefined
  readonly log: { readonly level: LogLevel; readonly access: boolean }
}
