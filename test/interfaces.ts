/**
 * What users rely on is what was recorded: settings, commands, exit codes, metrics, endpoints, fields, words of the log, versions of files.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'
import { advice, interfacesText, recordedPath } from './fixtures/recorded/interfaces.ts'

const root = packageRoot()

t.test('the interfaces are the recorded ones', async t => {
  const recorded = readFileSync(join(root, recordedPath), 'utf8')
  const told = advice(recorded, interfacesText(root))
  t.equal(told, undefined, told ?? 'nothing to do')
})

t.test('each kind is among them', async t => {
  const lines = interfacesText(root).split('\n')
  for (const line of [
    'setting cachesvc.yaml archives[].delay: duration',
    'setting authproxy.yaml proxy.listenAddress: ADDRESS:PORT',
    'variable authproxy AUTHPROXY_PROXY_LISTEN_ADDRESS',
    'command cachesvc explain URL',
    'option authproxy --groups NUMBER of doctor',
    'exit code 78: configuration',
    'endpoint cachesvc /_cachesvc/healthz',
    'endpoint authproxy /saml/acs',
    'endpoint authproxy admin /readyz',
    'json cachesvc status rates.requests: number',
    'json cachesvc status downloads[].length: number',
    'json cachesvc list [].sha256: text',
    'json cachesvc build show answers[].location: text',
    'json cachesvc verify-repos repositories[].signature.ends.at: number',
    'json cachesvc /_cachesvc/api/stats daily[].traffic_up: number',
    'json authproxy /__authproxy/whoami groups: list of text or null',
    'field for the application (authproxy) X-Authproxy-Email',
    'field for the application (webauth) X-WEBAUTH-USER',
    'field of an answer, cachesvc Cache-Status',
    'claim of the signed identity auth_time',
    'claim of the signed identity htu',
    'cookie __authproxy_session',
    'cookie __Host-authproxy_browser',
    'cookie __Host-authproxy_login.ID',
    'cookie __Host-authproxy_state',
    'endpoint authproxy /__authproxy/whoami',
    'log: field of a request duration',
    'log: field of a request, cachesvc because',
    'log: field of a request, cachesvc notStored',
    'log: outcome, cachesvc hit',
    'log: field of a request, authproxy resubmitted',
    'log: field of a request, authproxy trace',
    'log: outcome, authproxy forwarded',
    'log: outcome of a check, authproxy misrouted',
    'log: because, authproxy token-scope',
    'log: because, cachesvc shared-store',
    'log: because, cachesvc https.refuse_domains',
    'log: because, cachesvc origin-STATUS',
    'log: because, cachesvc far-broke',
    'log: because, cachesvc no-snapshot',
    'log: code of a failure, cachesvc ORIGIN_SLOW',
    'log: code of a failure, cachesvc wrong-digest',
    'log: code of a failure, authproxy backend_connect_refused',
    'log: code of a failure, authproxy signature_missing',
    'log: code of a failure, authproxy session_cookie_missing',
    'log: code of a failure, authproxy edge_secret',
    'file: cache directory v2',
    'file: INSTANCE.json version 2',
  ]) {
    t.ok(lines.includes(line), line)
  }
  t.ok(lines.some(line => /^metric cachesvc_\w+\{\w+\}: counter$/.test(line)))
})

t.test('what is removed or renamed needs a decision, what is new only the recording', async t => {
  t.equal(advice('# head\na\nb\n', '# other head\nb\na\n'), undefined)
  const added = advice('a\n', 'a\nb\n')
  t.match(added, '  b\n')
  t.match(added, 'npm run interfaces')
  t.notMatch(added, 'CHANGELOG')
  const renamed = advice('a\nold\n', 'a\nnew\n')
  t.match(
    renamed,
    /gone or changed:\n {2}old\n[\s\S]*new name:\n {2}new\n[\s\S]*put them back[\s\S]*CHANGELOG\.md/,
  )
})
