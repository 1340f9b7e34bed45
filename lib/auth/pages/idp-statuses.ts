/**
 * The statuses with which an IdP refuses a login for the content of our request (saml-core-2.0-os section 3.2.2.2): the text of the
 * page, the settings that decide it, and the advice of `authproxy explain`.
 */
import type { FailureCode } from './failures.ts'

interface IdpStatus {
  /** The text of the page, where the person cannot do anything about the status; by default that of `idp_status`. */
  readonly as?: FailureCode
  readonly setting?: string
  readonly advice: string
}

const askedFor = 'saml.nameIDFormat, saml.authnContext, saml.forceAuthn, samlRequestSigning'

const unsupported =
  'The identity provider does not take such a request: compare saml.nameIDFormat, saml.authnContext and saml.forceAuthn with what it supports.'

/** By the short name of the status. */
export const idpStatuses: ReadonlyMap<string, IdpStatus> = new Map<string, IdpStatus>([
  [
    'InvalidNameIDPolicy',
    {
      as: 'idp_name_id',
      setting: 'saml.nameIDFormat',
      advice:
        'The identity provider has no NameID of the format that saml.nameIDFormat asks for: choose another, or `none` to ask for none.',
    },
  ],
  [
    'NoAuthnContext',
    {
      as: 'idp_no_context',
      setting: 'saml.authnContext',
      advice:
        'The identity provider cannot authenticate as saml.authnContext asks: change or remove it, or saml.authnContextComparison.',
    },
  ],
  ['RequestUnsupported', { as: 'idp_unsupported', setting: askedFor, advice: unsupported }],
  ['UnsupportedBinding', { as: 'idp_unsupported', setting: askedFor, advice: unsupported }],
  [
    'RequestDenied',
    {
      advice:
        'The identity provider refuses the request: it may want it signed (samlRequestSigning: always), or does not know this service.',
    },
  ],
  [
    'NoPassive',
    { advice: 'The identity provider was to answer without asking the person, and cannot.' },
  ],
  [
    'AuthnFailed',
    {
      advice:
        'The person could not be authenticated at the identity provider; its own log says why.',
    },
  ],
])
