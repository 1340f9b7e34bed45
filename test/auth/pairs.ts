/**
 * Features in pairs: each with the gateway and with the checks of an edge, and those that decide about one request with each other. A cell has
 * tests, or the reason why the two cannot matter to each other. This file fails when a pair is missing, and when a test that it names is.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'

/** `file: title`, below test/auth, as the source has the title but for the `$` before `{`; or a reason. */
type Cell =
  | readonly [`${string}.ts: ${string}`, ...`${string}.ts: ${string}`[]]
  | { readonly because: string }

const fronts = ['gateway', 'check'] as const

const features = [
  ...['rules', 'watched rules', 'foreign fields', 'identity fields'],
  ...['cookies of the application', 'our cookies'],
  ...[
    'passthrough tokens',
    'passthrough paths',
    'preflights',
    'WebSockets',
    'logout',
    'revocation',
  ],
  ...['shared state', 'renewal', 'kept forms', "the browser's cookie", 'step-up logins'],
  ...['doctor probes', 'own pages', 'methods', 'credential of the backend', 'signed identity'],
  'tokens of people',
] as const

const counted =
  'access/watch.ts: 98, {front}: watching refuses nobody who is signed in, and counts what enforcing refuses'
const alike = 'two-fronts.ts: {edge}, {variant}: the gateway and a check decide alike'

const byFront: Readonly<Record<string, Readonly<Record<(typeof fronts)[number], Cell>>>> = {
  rules: {
    gateway: [
      "access/service.ts: 72, 73: the table of verdicts, by {upgrade ? 'upgrades' : 'requests'}",
      alike,
    ],
    check: [
      'forward-auth/checks.ts: {edge}: the rules of the gateway decide, and refuse with 403',
      alike,
    ],
  },
  'watched rules': {
    gateway: [counted, alike],
    check: [counted, alike],
  },
  'foreign fields': {
    gateway: [
      'access/foreign-names.ts: 44, 49, 52, 95: the gateway removes every row but what the rules judge',
      alike,
    ],
    check: [
      'access/foreign-names.ts: 83, 95: a check with a row that names something else than was judged is 403',
      'forward-auth/edge-files.ts: 95: {edge} removes every field a client may not say, in every spelling',
    ],
  },
  'identity fields': {
    gateway: [
      'identity/backend-fields.ts: what reaches the backend is what the plain rules let pass',
      alike,
    ],
    check: [
      'forward-auth/checks.ts: {edge}: who is signed in passes, with every field an identity can have',
      'forward-auth/checks.ts: other names and Basic credentials are told in full, too',
      alike,
    ],
  },
  'cookies of the application': {
    gateway: [
      'specification-forwarding.ts: 4. Forwarding 1: its own session cookie is removed, others stay',
      alike,
    ],
    check: [
      'forward-auth/checks.ts: {edge}: who is signed in passes, with every field an identity can have',
      alike,
    ],
  },
  'our cookies': {
    gateway: ['session/attacks.ts: a backend can neither end nor plant a session', alike],
    check: ['forward-auth/peers-cves.ts: CVE-2026-25748: a malformed cookie is no session', alike],
  },
  'passthrough tokens': {
    gateway: ['attacks/requests.ts: 65: no other token lets a request pass', alike],
    check: [
      'forward-auth/checks-and-sessions.ts: 65, {edge}: a passthrough token passes checks until it expires',
      alike,
    ],
  },
  'passthrough paths': {
    gateway: [
      'attacks/requests.ts: 47, 48: a path that could be read in two ways never passes without a login',
      alike,
    ],
    check: [
      'forward-auth/peers-cves.ts: a path that edge and application read in different ways passes nowhere',
      alike,
    ],
  },
  preflights: {
    gateway: ['access/preflight.ts: 80: a preflight passes, and says of no one who asks', alike],
    check: [
      'forward-auth/peers-cves.ts: 80: a preflight that passes has no cookies, and none with credentials passes',
      alike,
    ],
  },
  WebSockets: {
    gateway: ['websocket.ts: 57: a page of another origin cannot use the session of a user', alike],
    check: [
      'forward-auth/checks.ts: 88: a page of another origin opens no WebSocket by way of {edge}',
      'forward-auth/checks.ts: {edge}: no protocol but WebSockets begins, whoever asks',
      alike,
    ],
  },
  logout: {
    gateway: [
      'session/attacks.ts: a logged-out session is dead in every copy, also after a restart',
    ],
    check: [
      'forward-auth/checks-and-sessions.ts: {edge}: after a sign-out no copy of the session passes a check',
    ],
  },
  revocation: {
    gateway: ['kept-connection.ts: a session that is revoked', alike],
    check: [
      'forward-auth/checks.ts: a session that was ended passes no more, however often it was shown',
      alike,
    ],
  },
  'shared state': {
    gateway: [
      'shared-state/three-instances.ts: logins, tabs and forms, whatever instance each request comes to',
    ],
    check: [
      'forward-auth/checks-and-sessions.ts: 89: a session that ends at one instance passes no check at another',
    ],
  },
  renewal: {
    gateway: [
      'session/sessions.ts: an unused session ends when it has been idle, a used one is renewed until its absolute end',
    ],
    check: [
      'forward-auth/checks.ts: 87: a session is renewed on the way to a page, once in its time, at {edge}',
      'forward-auth/checks.ts: 87: the renewal leads to a path of its own host, whatever it is asked',
    ],
  },
  'kept forms': {
    gateway: ['login/resubmission.ts: every kind of form arrives byte for byte, files and all'],
    check: [
      'forward-auth/checks.ts: {edge}: a form without a session is not kept, and the page says so',
    ],
  },
  "the browser's cookie": {
    gateway: [
      'session/attacks.ts: 71: a browser needs its cookie, so no neighbour plants a session; a program does not',
      alike,
    ],
    check: [
      'forward-auth/checks.ts: 71, {edge}: a browser needs its own cookie beside the session, a program does not',
      alike,
    ],
  },
  'step-up logins': {
    gateway: [
      'access/step-up.ts: 77: an old login is asked for anew, and the page opens after it',
      alike,
    ],
    check: [
      'forward-auth/checks-and-sessions.ts: 77, {edge}: a login that is too old is led to a younger one, and passes nothing',
      alike,
    ],
  },
  'doctor probes': {
    gateway: ['doctor/probe.ts: the instance answers a probe on any path, before everything else'],
    check: [
      'forward-auth/probed-checks.ts: a page of the application is denied as without one, and noted',
      'forward-auth/probed-checks.ts: nothing else is',
    ],
  },
  'own pages': {
    gateway: [
      'login.ts: the paths of SAML are answered here, whoever asks and whatever passes',
      'identity/whoami.ts: rules do not concern it: also a person who may do nothing learns who they are',
    ],
    check: [
      'forward-auth/checks.ts: {edge}: paths of the gateway are none of the application',
      alike,
    ],
  },
  methods: {
    gateway: ['access/rules.ts: 74: a method that a field names has to be allowed as well', alike],
    check: [
      'forward-auth/checks.ts: 74, {edge}: a method in small letters is no way around the rule for it',
      alike,
    ],
  },
  'credential of the backend': {
    gateway: [
      'backend-credential.ts: 97: every request has the credential once, whatever a client sends by its name',
      'backend-credential.ts: 97: a value that changes is read again; one of no use changes nothing',
    ],
    check: [
      'backend-credential.ts: 97: a check that passes has the credential, and no other answer has it',
      'forward-auth/edges-credential.ts: 97: {name} copies it from the check',
    ],
  },
  'signed identity': {
    gateway: [
      'identity/token-forms.ts: 81: no client sends a field of the token, whatever lets its request pass',
      'identity/token-forms.ts: keys are where each gateway has them, and nowhere else',
      'identity/identity-token.ts: the handshake of a WebSocket carries one too',
    ],
    check: [
      'identity/token-forms.ts: 84: a check answers with the field, and refuses what the edge could pass on',
      'forward-auth/checks.ts: the signed identity is for the request that was asked about',
    ],
  },
  'tokens of people': {
    gateway: [
      'tokens/tokens.ts: a program with a token asks as the person, and the log names the token',
    ],
    check: [
      'tokens/fronts.ts: 137: {edge}, a check judges a token by the request that is asked about',
    ],
  },
}

/** The features that decide about one request, or about what it has begun. */
const deciding = [
  ...['rules', 'watched rules', 'passthrough tokens', 'passthrough paths', 'preflights'],
  ...['WebSockets'],
  ...['ended sessions', 'shared state', 'renewal', 'kept forms', "the browser's cookie"],
  ...['step-up logins', 'tokens of people'],
] as const

const noSession = { because: 'What passes so has no session, whatever cookies come with it.' }
const notForwarded = {
  because: 'What has no answer of the application renews nothing, and the next page does.',
}

/** Each feature with those after it in the list. */
const together: Readonly<Record<string, Readonly<Record<string, Cell>>>> = {
  rules: {
    'watched rules': [
      'access/watch.ts: 98: a person passes by the rules as written or by those that are enforced, and a visitor by the first alone',
    ],
    'passthrough tokens': [
      'forward-auth/checks.ts: {edge}: the rules of the gateway decide, and refuse with 403',
      'access/token-scope.ts: 78: a token is for the paths, methods and clients it names',
    ],
    'passthrough paths': [
      'access/refusals.ts: without rules nothing changes, and passthrough paths are judged before rules',
    ],
    preflights: [
      'access/preflight.ts: 80: rules close a path to preflights where no person may come',
    ],
    WebSockets: [
      "access/service.ts: 72, 73: the table of verdicts, by {upgrade ? 'upgrades' : 'requests'}",
      'access/refusals.ts: 76: rules that are changed end what they no longer allow, within a second',
    ],
    'ended sessions': {
      because: 'An ended session is none before the rules look at a person.',
    },
    'shared state': {
      because: 'Each instance has the rules of its own file; nothing of them is shared.',
    },
    renewal: notForwarded,
    'kept forms': [
      'login/resubmission.ts: a form whose sender the rules refuse after the login is not sent',
    ],
    "the browser's cookie": {
      because: 'Without its browser a session is none before the rules look at a person.',
    },
    'step-up logins': [
      'access/step-up.ts: 77: an old login is asked for anew, and the page opens after it',
    ],
    'tokens of people': ['tokens/attacks.ts: 117: the rules of this moment judge a token'],
  },
  'watched rules': {
    'passthrough tokens': [
      'access/watch.ts: 98: what would open a door, or let no person through, is refused',
    ],
    'passthrough paths': { because: 'They are judged before rules, watched or not.' },
    preflights: ['access/watch.ts: 98: a preflight is judged as if no rule were only watched'],
    WebSockets: [
      counted,
      'access/watch.ts: 98: a WebSocket that passes because a rule is watched ends when the rule is enforced',
    ],
    'ended sessions': {
      because: 'An ended session is none, and without one nothing passes by watching.',
    },
    'shared state': {
      because: 'Each instance has the rules of its own file; nothing of them is shared.',
    },
    renewal: { because: 'What passes by watching is an answer of the application like any other.' },
    'kept forms': {
      because: 'A form that comes back after a login is judged as one that needed none.',
    },
    "the browser's cookie": {
      because: 'Without its browser a session is none before the rules look at a person.',
    },
    'step-up logins': [counted],
    'tokens of people': [
      'tokens/tokens.ts: a watched rule lets a token pass as its person, and counts; those of tokens are enforced',
    ],
  },
  'passthrough tokens': {
    'passthrough paths': {
      because:
        'A path that passes needs no token, and one that comes is removed like any foreign field.',
    },
    preflights: ['access/preflight.ts: 80: nothing else passes by it'],
    WebSockets: [
      'session/ending.ts: 91: what a passthrough token let through ends when the token expires, and the client is not blamed',
    ],
    'ended sessions': noSession,
    'shared state': {
      because: 'Each instance has the tokens of its own file; nothing of them is shared.',
    },
    renewal: noSession,
    'kept forms': {
      because:
        'A form with a good token passes at once, and one with a bad token is refused as a program is.',
    },
    "the browser's cookie": noSession,
    'step-up logins': noSession,
    'tokens of people': [
      'tokens/attacks-making.ts: 124: a passthrough token makes no tokens, and stands before those of people',
    ],
  },
  'passthrough paths': {
    preflights: {
      because: 'Where a path passes, so does a preflight for it, before it is taken for one.',
    },
    WebSockets: ['forward-auth/checks.ts: {edge}: no protocol but WebSockets begins, whoever asks'],
    'ended sessions': noSession,
    'shared state': noSession,
    renewal: noSession,
    'kept forms': {
      because: 'Nothing that passes needs a login, so nothing of it is kept over one.',
    },
    "the browser's cookie": noSession,
    'step-up logins': noSession,
    'tokens of people': {
      because:
        'A path that passes needs no token, and one that comes is removed like any foreign field.',
    },
  },
  preflights: {
    WebSockets: ['access/preflight.ts: 80: nothing else passes by it'],
    'ended sessions': noSession,
    'shared state': noSession,
    renewal: noSession,
    'kept forms': { because: 'A preflight is OPTIONS, and forms are posted.' },
    "the browser's cookie": noSession,
    'step-up logins': noSession,
    'tokens of people': ['access/preflight.ts: 80: nothing else passes by it'],
  },
  WebSockets: {
    'ended sessions': [
      'session/ending.ts: WebSockets, event streams and downloads end when {name}',
    ],
    'shared state': [
      'shared-state/three-instances.ts: a logout at one instance ends a WebSocket at another',
    ],
    renewal: [
      'session/ending.ts: what is under way goes on over the end of the idle time, until the absolute end',
    ],
    'kept forms': { because: 'The opening of a WebSocket is a GET, and forms are posted.' },
    "the browser's cookie": [
      'forward-auth/checks-and-sessions.ts: 71, 88, {edge}: a WebSocket of a page needs the cookie of its browser',
    ],
    'step-up logins': [
      'forward-auth/checks-and-sessions.ts: 77, {edge}: a login that is too old is led to a younger one, and passes nothing',
    ],
    'tokens of people': ['tokens/fronts.ts: 138: a WebSocket and a stream end with their token'],
  },
  'ended sessions': {
    'shared state': [
      'shared-state/shared-state.ts: what ends at one instance ends at the other, and at one that starts later',
    ],
    renewal: [
      'session/ending.ts: an answer that is under way when {name} does not renew the session',
    ],
    'kept forms': ['login/resubmission.ts: somebody else who logs in never sends it'],
    "the browser's cookie": [
      'forward-auth/checks-and-sessions.ts: {edge}: after a sign-out no copy of the session passes a check',
    ],
    'step-up logins': [
      'access/step-up.ts: a person whose session is over signs in as another all the same',
    ],
    'tokens of people': [
      'tokens/attacks.ts: 113: a token that its person ended is over in every copy, also after a restart',
    ],
  },
  'shared state': {
    renewal: { because: 'A session is renewed by its cookie alone; the store has none.' },
    'kept forms': [
      'shared-state/shared-state.ts: a form waits for its user at every instance, and is handed out once',
    ],
    "the browser's cookie": {
      because: 'The cookie of a browser is compared with its session; the store has neither.',
    },
    'step-up logins': {
      because: 'When a person has authenticated stands in the session; the store has none.',
    },
    'tokens of people': [
      'tokens/instances.ts: 140: what is made at one instance counts, is shown and is ended at another',
    ],
  },
  renewal: {
    'kept forms': [
      'session/ending.ts: an upload that crosses the end of the idle time arrives, and its answer renews the session',
    ],
    "the browser's cookie": [
      'session/sessions.ts: the session cookie alone is a session, unless the browser’s own is required',
    ],
    'step-up logins': [
      'forward-auth/checks-and-sessions.ts: 77, {edge}: a login that is too old is led to a younger one, and passes nothing',
    ],
    'tokens of people': [
      'tokens/attacks-making.ts: 133: an answer to a token sets no cookie, however old the token is',
    ],
  },
  'kept forms': {
    "the browser's cookie": [
      'login/resubmission.ts: a page of another site cannot have it sent, and a stranger’s browser neither',
    ],
    'step-up logins': [
      'access/step-up.ts: a form that needs a younger login is kept, and sent after it',
    ],
    'tokens of people': {
      because:
        'A form with a good token passes at once, and one with a bad token is refused as a program is.',
    },
  },
  "the browser's cookie": {
    'step-up logins': {
      because:
        'The login that a rule asks for begins after the session was read, with its browser.',
    },
    'tokens of people': [
      'tokens/attacks.ts: 110: a request with a token is judged by it alone, whatever cookie is beside it',
    ],
  },
  'step-up logins': {
    'tokens of people': [
      'tokens/attacks.ts: 118: a login that is too old for a rule is too old for a token',
    ],
  },
}

const sources = new Map<string, string>()

function sourceOf(file: string): string {
  const known = sources.get(file) ?? readFileSync(join(packageRoot(), 'test/auth', file), 'utf8')
  sources.set(file, known)
  return known
}

/** What is wrong with a cell; undefined when nothing is. */
function problemOf(cell: Cell | undefined): string | undefined {
  if (cell === undefined) return 'there is no cell'
  if ('because' in cell) return cell.because.endsWith('.') ? undefined : 'the reason is no sentence'
  for (const named of cell) {
    const [file = '', title = ''] = named.replaceAll('{', '$' + '{').split(/\.ts: (.*)/s)
    const isThere = ["'", '`', '"'].some(quote =>
      sourceOf(`${file}.ts`).includes(`${quote}${title}${quote}`),
    )
    if (!isThere) return `${file}.ts has no test “${title}”`
  }
  return undefined
}

t.test('each feature has a cell with the gateway and one with a check', t => {
  t.same(Object.keys(byFront), features)
  for (const feature of features) {
    for (const front of fronts) {
      t.equal(problemOf(byFront[feature]?.[front]), undefined, `${feature}, ${front}`)
    }
  }
  t.end()
})

t.test('each two features that decide have a cell', t => {
  for (const [index, feature] of deciding.entries()) {
    const others = deciding.slice(index + 1)
    t.same(Object.keys(together[feature] ?? {}), others, feature)
    for (const other of others) {
      t.equal(problemOf(together[feature]?.[other]), undefined, `${feature}, ${other}`)
    }
  }
  t.end()
})
