/**
 * What is said of settings of a shared store, and of keys that are distributed, that are wrong or dangerous.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { inForce, needRestart } from '../../../lib/auth/config/config.ts'
import { configCheck } from '../../../lib/auth/config/loading/load-config.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'

const check = (state: Readonly<Record<string, unknown>>, more = {}) =>
  configCheck('app')({
    domain: 'app.example.org',
    idpMetadataURL: 'https://idp.example.org/metadata',
    proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
    state,
    ...more,
  })

const told = (outcome: ReturnType<typeof check>, which: 'problems' | 'warnings') => {
  const remarks = which === 'warnings' ? outcome.warnings : outcome.ok ? [] : outcome.problems
  return remarks.map(({ path, text }) => `${path.join('.')}: ${text}`).join('\n')
}

const url = 'rediss://valkey.example.org'

t.test('no store unless there is a URL; what it says is taken apart', async t => {
  const without = check({})
  t.equal(without.ok && without.value.state, undefined)
  for (const [written, expected] of [
    [url, { tls: true, host: 'valkey.example.org', port: 6379, database: 0 }],
    ['redis://[::1]:7000/3', { tls: false, host: '::1', port: 7000, database: 3 }],
  ] as const) {
    const outcome = check({ url: written })
    t.match(outcome, { ok: true, value: { state: { ...expected, instance: 'app' } } })
    t.equal(told(outcome, 'warnings'), '')
  }
})

t.test('what is wrong', async t => {
  for (const [state, expected] of [
    [{ url: 'http://valkey.example.org' }, /state\.url: .*rediss:/],
    [{ url: 'redis://' }, /state\.url/],
    [{ url: 'redis://h/x' }, /state\.url/],
    [{ url, sentinels: ['[::1'] }, /state\.sentinels/],
    [{ url, user: 'app' }, /state\.user: also needs state\.passwordFile/],
    [{ url, passwordFile: '/nonexistent' }, /state\.passwordFile: .*no such file/],
    [{ url, onOutage: 'stop' }, /state\.onOutage/],
  ] as const) {
    t.match(told(check(state), 'problems'), expected)
  }
  for (const written of ['redis://app:geheim@h', 'redis://:geheim@h/0', 'rediss://ge/heim@h']) {
    const said = told(check({ url: written }), 'problems')
    t.match(said, /state\.url/)
    if (!written.includes('ge/heim')) t.notMatch(said, 'geheim', 'a password is not repeated')
  }
  t.match(told(check({}, { keys: { file: '/k.json' } }), 'problems'), /keys\.file: .*keys\.shared/)
})

t.test('what has no effect, or is dangerous, is told', async t => {
  for (const [state, more, expected] of [
    [{ sentinels: ['s.example.org'] }, {}, /state\.sentinels: has no effect/],
    [{ certificates: '/ca.pem' }, {}, /state\.certificates: has no effect without/],
    [{ url: 'redis://10.0.0.1', certificates: '/ca.pem' }, {}, /reached without TLS/],
    [{ url: 'redis://8.8.8.8' }, {}, /in the clear/],
    [{ url }, { session: { revocation: false } }, /session\.revocation: is off/],
  ] as const) {
    t.match(told(check(state, more), 'warnings'), expected)
  }
})

t.test('a password comes from a file, and a change waits for a restart', async t => {
  const file = join(await ownDirectory(t), 'password')
  await writeFile(file, 'geheim\n', { mode: 0o600 })
  const [first, second, third] = [
    check({ url, user: 'app', passwordFile: file }),
    check({ url: 'redis://10.0.0.1', user: 'app', passwordFile: file }),
    check({ url, user: 'app', passwordFile: file, onOutage: 'refuse' }),
  ]
  if (!first.ok || !second.ok || !third.ok) throw new Error('they are right')
  t.equal(first.value.state?.password, 'geheim')
  t.same(needRestart(first.value, second.value), ['state'])
  t.equal(inForce(first.value, second.value).state?.host, 'valkey.example.org')
  t.same(needRestart(first.value, third.value), [], 'but not what becomes of logins')
  t.equal(inForce(first.value, third.value).saml.onOutage, 'refuse')
  await writeFile(file, '')
  t.match(told(check({ url, user: 'app', passwordFile: file }), 'problems'), /is empty/)
})
