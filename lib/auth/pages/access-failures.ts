/**
 * The texts of refusals by the rules under `access`, a part of the table of failures.
 */

const refused = {
  category: 'ACCESS-REFUSED',
  status: 403,
  title: 'You may not open this page',
  administrator: 'authproxy explain names the rule that refused it, with its line in the file.',
} as const

export const accessFailures = {
  access_refused: {
    ...refused,
    text: 'You are signed in as {user}, and the rules of this service do not let you open this page.',
    action: { href: '{other}', label: 'Sign in as someone else' },
  },
  /** The text for a request without a session, where a login would not help. */
  access_closed: {
    ...refused,
    text: 'The rules of this service let no one open this page.',
  },
  access_ambiguous: {
    category: 'ACCESS-REFUSED',
    status: 400,
    title: 'This address cannot be opened',
    text: 'Servers read this address in different ways, so the rules of this service cannot tell which page it means.',
    person: ['Go to the application, and open the page from there.'],
    administrator:
      'authproxy explain says which rule it could have passed by; docs/access-rules.md says which spellings are refused.',
    action: { href: '/', label: 'Go to the application' },
  },
  /** The text for a request of another site for /__authproxy/whoami. The link asks for it again, from a page of ours. */
  whoami_foreign: {
    category: 'ACCESS-REFUSED',
    status: 403,
    title: 'Another site asks who you are',
    text: 'Another site led you here. What this service knows about you is shown to you alone, so nothing has been told yet.',
    person: ['If you want to see it, go on. The other site learns nothing of it.'],
    administrator:
      'A page of another origin opened /__authproxy/whoami, or a script of one asked for it. Scripts of the application itself have to run under its own host name.',
    action: { href: '{own}', label: 'Show it' },
  },
} as const
