/**
 * Settings of logins: `saml`.
 */
import { boolean, duration, oneOf, size, text } from '../setting-kinds.ts'
import { group, listOf, optional, setting } from '../settings.ts'

export const saml = group('How logins are asked for and judged.', {
  nameIDFormat: optional(text, {
    defaultText: '`urn:oasis:names:tc:SAML:2.0:nameid-format:transient`',
    manual: 'The format of NameID that is asked for; `none` asks for none.',
  }),
  idpInitiated: setting(boolean, {
    default: false,
    manual: [
      'Takes logins nobody asked for, begun at the identity provider. Whoever has an account there can have others signed in under it, so leave it off where nobody needs it.',
      'Their RelayState may be a path or an address of this host, where the user arrives then; anything else leads to `/`.',
    ],
  }),
  forceAuthn: setting(boolean, {
    default: false,
    manual: 'Asks the identity provider to have the user log in anew each time.',
  }),
  authnContext: setting(listOf(text, 'URIs'), {
    default: [],
    manual: 'Authentication contexts that are asked for. None as a rule.',
  }),
  authnContextComparison: setting(oneOf('exact', 'minimum', 'maximum', 'better'), {
    default: 'exact',
    manual: 'How `authnContext` is meant.',
  }),
  clockSkew: setting(duration('0s', '10m'), {
    default: '90s',
    manual: 'By how much the clock of the identity provider may differ.',
  }),
  assertionAge: setting(duration('10s', '1h'), {
    default: '5m',
    manual: 'How old an assertion may be.',
  }),
  loginTime: setting(duration('1m', '1h'), {
    default: '10m',
    manual: 'How long a user may take to log in.',
  }),
  allowSHA1: setting(boolean, {
    default: false,
    manual: 'Takes signatures over SHA-1, which can be forged with enough money.',
  }),
  allowUnsignedLogout: setting(boolean, {
    default: false,
    manual: 'Ends sessions when a logout request comes without a signature. Anybody can send one.',
  }),
  replaySize: setting(size('0', '256K'), {
    default: '64K',
    manual:
      'The largest form that is kept, encrypted in the browser, when the session has ended while it was filled in; it is sent after the login. 0 keeps none.',
  }),
})
