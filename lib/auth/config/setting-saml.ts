/**
 * Settings of logins: `saml`.
 */
import { boolean, duration, oneOf, size, text } from '../../config/setting-kinds.ts'
import { group, listOf, optional, setting } from '../../config/settings.ts'

export const saml = group('How logins are asked for and judged.', {
  nameIDFormat: optional(text, '`urn:oasis:names:tc:SAML:2.0:nameid-format:transient`').says(
    'The format of NameID that is asked for; with `none` the identity provider chooses.',
  ),
  idpInitiated: setting(boolean, false).says(
    'Whether logins begun at the identity provider are accepted. A user with an account there can have others signed in under it, so leave it off where it is not needed.',
    'Their RelayState may be a path or an address of this host, where the user arrives then; anything else leads to `/`.',
  ),
  forceAuthn: setting(boolean, false).says(
    'Whether the identity provider is asked to have the user log in anew each time.',
  ),
  authnContext: setting(listOf(text, 'URIs'), []).says(
    'Authentication contexts that are asked for. Usually none is needed.',
  ),
  authnContextComparison: setting(oneOf('exact', 'minimum', 'maximum', 'better'), 'exact').says(
    'Comparison of `authnContext` with the context the identity provider used.',
  ),
  clockSkew: setting(duration('0s', '10m'), '90s').says(
    'Largest difference between the clocks of this server and of the identity provider.',
  ),
  assertionAge: setting(duration('10s', '1h'), '5m').says('Largest age of an assertion.'),
  loginTime: setting(duration('1m', '1h'), '10m').says(
    'Time limit for a login, from the redirect to the identity provider to the return.',
  ),
  allowSHA1: setting(boolean, false).says(
    'Whether signatures over SHA-1 are accepted, which can be forged with enough money.',
  ),
  allowUnsignedLogout: setting(boolean, false).says(
    'Whether a logout request without a signature ends sessions. Any host on the network can send one.',
  ),
  replaySize: setting(size('0', '8M'), '1M').says(
    'Largest form, files included, that is kept over a login. When a form comes without a session, because that has ended or there was none yet, the service keeps the form in memory, encrypted with a key that only the browser has, and sends it once, unchanged, after the login. Where the browser has been signed in before, only the same user can send it. 0 keeps none.',
    'Only forms of pages of this host are kept. Other requests with content (a larger form, a form of another site, JSON) get a 401 that says that the request was not kept. Some 32 MiB are kept for all users together, at most four forms for each user, and 16 MiB for browsers that have not been signed in before, at most four for each network; a restart loses them.',
  ),
})
