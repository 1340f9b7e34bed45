/**
 * Settings of logins: `saml`.
 */
import { boolean, duration, oneOf, size, text } from '../../config/setting-kinds.ts'
import { group, listOf, optional, setting } from '../../config/settings.ts'

export const saml = group('How logins are asked for and judged.', {
  nameIDFormat: optional(text, '`urn:oasis:names:tc:SAML:2.0:nameid-format:transient`').says(
    'The format of NameID that is asked for; `none` asks for none.',
  ),
  idpInitiated: setting(boolean, false).says(
    'Takes logins begun at the identity provider. A user with an account there can have others signed in under it, so leave it off where it is not needed.',
    'Their RelayState may be a path or an address of this host, where the user arrives then; anything else leads to `/`.',
  ),
  forceAuthn: setting(boolean, false).says(
    'Asks the identity provider to have the user log in anew each time.',
  ),
  authnContext: setting(listOf(text, 'URIs'), []).says(
    'Authentication contexts that are asked for. None as a rule.',
  ),
  authnContextComparison: setting(oneOf('exact', 'minimum', 'maximum', 'better'), 'exact').says(
    'How `authnContext` is meant.',
  ),
  clockSkew: setting(duration('0s', '10m'), '90s').says(
    'By how much the clock of the identity provider may differ.',
  ),
  assertionAge: setting(duration('10s', '1h'), '5m').says('How old an assertion may be.'),
  loginTime: setting(duration('1m', '1h'), '10m').says('How long a user may take to log in.'),
  allowSHA1: setting(boolean, false).says(
    'Takes signatures over SHA-1, which can be forged with enough money.',
  ),
  allowUnsignedLogout: setting(boolean, false).says(
    'Ends sessions when a logout request comes without a signature. Any host on the network can send one.',
  ),
  replaySize: setting(size('0', '8M'), '1M').says(
    'The largest form, files included, that is kept in memory, encrypted with a key only the browser has, when the session has ended while it was filled in. It is sent once, as it was, after the same user has logged in. 0 keeps none.',
    'Kept are forms of our own pages, in browsers that have been signed in before. For everything else (a larger one, another site’s, JSON) the answer is 401, and says that the request was not kept. Some 32 MiB are kept for all users together, four forms each; a restart loses them.',
  ),
})
