/** Real edges that ask for checks: as they are shipped, and with the mistakes that people make. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import type { Diagnosis } from '../../../lib/auth/doctor/check.ts'
import { examine } from '../../../lib/auth/doctor/checks/examine.ts'
import { type BehindEdgeOptions, startBehindEdge } from '../../fixtures/edges/behind-edge.ts'
import { type EdgeName, edgeHost, edgeTls, realEdges } from '../../fixtures/edges/real-edge.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'
import { lacking } from '../../fixtures/process/command.ts'
import { freePort } from '../../fixtures/process/ports.ts'

t.setTimeout(600_000)

/** What the doctor says of an edge. */
async function examined(
  t: Test,
  name: EdgeName,
  options: Pick<BehindEdgeOptions, 'mistake' | 'forwardAuth' | 'settings'> = {},
): Promise<readonly Diagnosis[]> {
  const port = await freePort()
  const settings = { ...options.settings, domain: `${edgeHost}:${port}` }
  const { whole } = await startBehindEdge(t, name, { ...options, port, settings })
  const found: Diagnosis[] = []
  const { config } = whole
  const tools = { clock: systemClock, random: randomBytes, lookup: async () => ['127.0.0.1'] }
  const about = { config, from: 'app.yaml', warnings: [], groups: undefined, ca: [edgeTls.ca] }
  for await (const diagnosis of examine({ ...tools, ...about })) found.push(diagnosis)
  return found.filter(({ what }) => /edge|public host/.test(what))
}

for (const name of realEdges) {
  t.test(`${name} as it is shipped`, { skip: lacking(name) }, async t => {
    const found = await examined(t, name)
    t.equal(found.length, 23)
    for (const { what, state, found: text } of found) t.equal(state, 'right', `${what}: ${text}`)
  })
}

/** In a file of packaging/edges, what stands there and what a person wrote in its place. */
type Mistake = readonly [
  what: string,
  edge: EdgeName,
  file: string,
  change: readonly [from: string | RegExp, to: string],
  finding: readonly [name: string, found: RegExp, mend: RegExp],
]

const site = 'nginx/authproxy.conf'
const protect = 'nginx/authproxy-protect.conf'

t.test('nginx: a credential that is not copied', { skip: lacking('nginx') }, async t => {
  const valueFile = join(await ownDirectory(t), 'key')
  await writeFile(valueFile, 'a-value-that-no-one-guesses', { mode: 0o600 })
  const settings = { backendCredential: { field: 'X-Gateway-Key', valueFile } }
  const identityWith = async (line: string) => {
    const after = /proxy_set_header Daphne-Root-Path "";/
    const all = await examined(t, 'nginx', {
      settings,
      mistake: (file, text) => (file === protect ? text.replace(after, old => old + line) : text),
    })
    t.notMatch(JSON.stringify(all), /a-value-that/)
    return all.find(({ what }) => what === 'identity through the edge')
  }
  const missing = await identityWith('')
  t.match(missing, {
    state: 'wrong',
    found: 'X-Gateway-Key of the check does not reach the application',
  })
  t.match(await identityWith(missing?.mend ?? ''), { state: 'right' }, 'the line that it names')
})

t.test('nginx: a signed identity in another header', { skip: lacking('nginx') }, async t => {
  const settings = { identity: { token: 'cloudflare' } }
  const examinedWith = async (line: string) => {
    const after = /proxy_set_header Daphne-Root-Path "";/
    const all = await examined(t, 'nginx', {
      settings,
      mistake: (file, text) => (file === protect ? text.replace(after, old => old + line) : text),
    })
    const by = (name: string) => all.find(({ what }) => what === `${name} through the edge`)
    return { identity: by('identity'), words: by('words of a client') }
  }
  const { identity, words } = await examinedWith('')
  t.match(identity, {
    state: 'wrong',
    found: /^a client's own Cf-Access-Jwt-Assertion reaches the application/,
  })
  const relative =
    "a client's own Cf-Access-Authenticated-User-Email reaches the application. The check refuses such requests"
  t.match(words, { state: 'doubtful', found: relative })
  const mended = await examinedWith(`${identity?.mend} ${words?.mend}`)
  t.match(mended, { identity: { state: 'right' }, words: { state: 'right' } }, 'by these lines')
})

const mistakes: readonly Mistake[] = [
  [
    'no check at all',
    ...(['nginx', protect] as const),
    ['auth_request /__authproxy/check-by-nginx;', ''],
    ['check', /nothing was asked/, /auth_request \/__authproxy\/check-by-nginx;/],
  ],
  [
    'the field of a token passes',
    ...(['nginx', protect] as const),
    ['proxy_set_header X-Authproxy-Authorization "";', ''],
    [
      'identity',
      /^a client's own X-Authproxy-Authorization reaches the application, which learns/,
      /proxy_set_header X-Authproxy-Authorization "";/,
    ],
  ],
  [
    'the check does not tell the method',
    ...(['nginx', site] as const),
    ['proxy_set_header X-Original-Method $request_method;', ''],
    ['judged method', /^a POST is judged as TRACE/, /X-Original-Method \$request_method;/],
  ],
  [
    'the check tells its own method',
    ...(['nginx', site] as const),
    ['X-Original-Method $request_method;', 'X-Original-Method GET;'],
    [
      'judged method',
      /^a POST is judged as GET/,
      /proxy_set_header X-Original-Method \$request_method;/,
    ],
  ],
  [
    'the check tells the path of another request',
    ...(['nginx', site] as const),
    ['X-Original-URI $request_uri;', 'X-Original-URI $uri$is_args$args;'],
    ['judged path', /is judged as \/__authproxy\/check-by-nginx/, /X-Original-URI \$request_uri;/],
  ],
  [
    'the check does not tell the path',
    ...(['nginx', site] as const),
    ['proxy_set_header X-Original-URI $request_uri;', ''],
    ['judged path', /is judged as \/doctor-claims/, /X-Original-URI \$request_uri;/],
  ],
  [
    'the check tells the host that a client claims',
    ...(['nginx', site] as const),
    ['X-Original-Host $http_host;', 'X-Original-Host $http_x_forwarded_host;'],
    ['check', /X-Original-Host.*proxy_set_header X-Original-Host \$http_host;/, /nginx/],
  ],
  [
    'the check tells the address that a client claims',
    ...(['nginx', site] as const),
    [/(Host \$http_host;\n {4})proxy_set_header X-Forwarded-For \$remote_addr;/, '$1'],
    ['judged client', /^192\.0\.2\.99: the check believes/, /X-Forwarded-For \$remote_addr;/],
  ],
  [
    'a field of the identity is not overwritten',
    ...(['nginx', protect] as const),
    [/proxy_set_header X-Authproxy-Groups .*/, ''],
    [
      'identity',
      /^a client's own X-Authproxy-Groups reaches the application/,
      /proxy_set_header X-Authproxy-Groups \$ap_groups;/,
    ],
  ],
  [
    'a field of the identity is not read from the check',
    ...(['nginx', protect] as const),
    [/auth_request_set \$ap_user .*/, 'set $ap_user "";'],
    [
      'identity',
      /^X-Authproxy-User of the check does not reach the application/,
      /auth_request_set \$ap_user \$upstream_http_x_authproxy_user;/,
    ],
  ],
  [
    'a beginning of the path that a client names reaches the application',
    ...(['nginx', protect] as const),
    ['proxy_set_header Daphne-Root-Path "";', ''],
    [
      'words of a client',
      /^a client's own Daphne-Root-Path reaches the application\. The check refuses/,
      / proxy_set_header Daphne-Root-Path "";$/,
    ],
  ],
  [
    'a path that the application names is not judged',
    ...(['nginx', protect] as const),
    ['if ($authproxy_path != $uri) { return 403; }', ''],
    [
      'redirects of the application',
      /^X-Accel-Redirect of the application leads to another path/,
      /if \(\$authproxy_path != \$uri\) \{ return 403; \}/,
    ],
  ],
  [
    'names with underscores pass',
    ...(['nginx', site] as const),
    ['underscores_in_headers off;', 'underscores_in_headers on;'],
    ['identity', /X_Authproxy_User.*may read as X-Authproxy-User/, /underscores_in_headers off;/],
  ],
  [
    'no way to the login',
    ...(['nginx', protect] as const),
    ['error_page 401 403 = @authproxy;', ''],
    ['denied requests', /^a person who opens \/ gets 401/, /error_page 401 403 = @authproxy;/],
  ],
  [
    'what the check denies leads to the application',
    ...(['nginx', site] as const),
    [
      'location @authproxy { proxy_pass http://authproxy; }',
      'location @authproxy { proxy_pass http://application; }',
    ],
    [
      'denied requests',
      /^\/ is denied by the check, and answered 200/,
      /error_page 401 403 = @authproxy;/,
    ],
  ],
  [
    'logins do not lead to the gateway listener',
    ...(['nginx', site] as const),
    [/ {2}location \^~ \/saml\/ .*/, ''],
    ['public host', /answers 500, and not with our metadata/, /location \^~ \/saml\//],
  ],
  [
    'cookies do not arrive',
    ...(['nginx', site] as const),
    ['proxy_pass_request_body off;', 'proxy_pass_request_body off; proxy_set_header Cookie "";'],
    ['cookies of a check', /^none arrives/, /proxy_pass_request_headers/],
  ],
  [
    'the application gets all cookies',
    ...(['nginx', protect] as const),
    ['proxy_set_header Cookie $ap_cookie;', ''],
    ['cookies of a check', /^the application gets the cookies of authproxy/, /Cookie \$ap_cookie;/],
  ],
  [
    'open while the check fails',
    ...(['nginx', protect] as const),
    ['error_page 401 403 = @authproxy;', 'error_page 401 403 500 = @authproxy;'],
    ['failing checks', /^a request whose check fails is forwarded/, /no error_page 500/],
  ],
  [
    'no check at all',
    ...(['haproxy', 'haproxy/haproxy.cfg'] as const),
    ['  http-request lua.authproxy_check if !own or probe', ''],
    ['check', /nothing was asked/, /lua\.authproxy_check/],
  ],
  [
    'open while the check fails',
    ...(['haproxy', 'haproxy/haproxy.cfg'] as const),
    [/ {2}http-request deny deny_status 503 .*/, ''],
    ['failing checks', /^a request whose check fails is forwarded/, /deny_status 503/],
  ],
  [
    'fields of a client pass',
    ...(['haproxy', 'haproxy/authproxy.lua'] as const),
    ['then txn.http:req_del_header(name) end', 'then end'],
    ['identity', /^a client's own .*X-Authproxy-/i, /authproxy\.lua/],
  ],
  [
    'a field of the identity is not copied',
    ...(['caddy', 'caddy/Caddyfile'] as const),
    ['\t\t\tX-Authproxy-User\n', ''],
    ['identity', /^X-Authproxy-User of the check does not reach/, /copy_headers X-Authproxy-User/],
  ],
  [
    'a field is copied that the check does not have',
    ...(['caddy', 'caddy/Caddyfile'] as const),
    ['\t\t\tX-Authproxy-User\n', '\t\t\tX-Authproxy-User\n\t\t\tRemote-User\n'],
    ['identity', /^Remote-User arrives as \{http\./, /copy_headers/],
  ],
  [
    'other spellings pass',
    ...(['caddy', 'caddy/Caddyfile'] as const),
    [/\trequest_header (-\*authproxy\*|`-\*[_.!]\*`)\n/g, ''],
    ['identity', /may read as X-Authproxy-User/, /request_header/],
  ],
]

for (const [what, edge, file, [from, to], [name, found, mend]] of mistakes) {
  t.test(`${edge}: ${what}`, { skip: lacking(edge) }, async t => {
    const all = await examined(t, edge, {
      mistake(changed, text) {
        if (changed !== file) return text
        const other = text.replace(from, to)
        t.not(other, text, 'the file has what the mistake is about')
        return other
      },
    })
    const said = all.filter(one => one.what.replace(/ through the edge$/, '') === name)
    t.ok(
      said.some(one => found.test(one.found) && mend.test(`${one.found} ${one.mend}`)),
      JSON.stringify(said),
    )
    t.ok(said.some(({ state }) => state !== 'right'))
  })
}
