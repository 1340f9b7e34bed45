/** The table of names that a client may not say to the application, and what follows from it at both fronts. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  ForeignNames,
  foldedName,
  foreignName,
  foreignNames,
  isOverride,
  treatments,
} from '../../../lib/auth/access/foreign-names.ts'
import { fieldNames, nameSets } from '../../../lib/auth/config/field-names.ts'
import { isSource } from '../../../lib/auth/forward-auth/contract.ts'
import { backendFields } from '../../../lib/auth/identity/backend-fields.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { packageRoot } from '../../../lib/package.ts'
import { edges, startChecks } from '../../fixtures/gateway/checks.ts'
import { spellingsOf } from '../../fixtures/gateway/foreign.ts'

t.test('a name has one row, however it is spelt, and a longer name has none', t => {
  t.equal(new Set(foreignNames.map(({ name }) => foldedName(name))).size, foreignNames.length)
  for (const { name, family } of foreignNames) {
    for (const spelt of spellingsOf(name)) {
      const found = foreignName(spelt)
      const isPlain = family === 'framing' && spelt.toLowerCase() === name.toLowerCase()
      t.equal(found?.name, isPlain ? undefined : name, spelt)
    }
    t.equal(foreignName(`${name}-${name}`), undefined, `${name} twice`)
    t.equal(isOverride(name), family === 'override', name)
  }
  t.end()
})

t.test('every name that an instance can send is an identity', t => {
  const { others } = fieldNames(nameSets)
  for (const { field } of others) t.equal(foreignName(field)?.family, 'identity', field)
  const own = new ForeignNames(['X-Team'])
  t.equal(own.of('x_TEAM')?.family, 'identity')
  t.equal(own.of('X-Teams'), undefined)
  t.end()
})

t.test('a name of a megabyte takes no time', t => {
  const before = performance.now()
  for (const name of ['-'.repeat(1_000_000), 'a-'.repeat(500_000), `X${'-'.repeat(1_000_000)}Y`]) {
    t.equal(foreignName(name), undefined)
  }
  t.equal(foreignName(`X${'_'.repeat(1_000_000)}Real-IP`)?.name, 'X-Real-IP')
  t.ok(performance.now() - before < 2000, 'in linear time')
  t.end()
})

t.test('44, 49, 52, 95: the gateway removes every row but what the rules judge', t => {
  const added = { identity: Fields.empty, isKnown: false, own: Fields.empty, basicAuth: false }
  const stripped = new ForeignNames()
  for (const { name, family } of foreignNames) {
    for (const spelt of spellingsOf(name)) {
      // HTTP's own field is its own business.
      if (family === 'framing' && foreignName(spelt) === undefined) continue
      const { count } = backendFields(Fields.of([spelt, 'x']), { ...added, stripped })
      t.equal(count, treatments[family].gateway === 'judged' ? 1 : 0, spelt)
    }
  }
  t.end()
})

t.test('83, 95: a check with a row that names something else than was judged is 403', async t => {
  const open = { passthroughPaths: ['/public/'] }
  for (const edge of edges) {
    const { ask, gateway } = await startChecks(t, { edge, settings: open })
    for (const { name, family, setBy } of foreignNames) {
      const { check } = treatments[family]
      for (const spelt of spellingsOf(name)) {
        // The sources are the edge's own, and the plain fields of the framing those of HTTP.
        if (isSource(edge, spelt) || foreignName(spelt) === undefined) continue
        const answer = await ask('/public/admin/', { [spelt]: 'other.example.org' })
        const isRefused = (check === 'refused' || check === 'compared') && setBy !== edge
        // Another spelling of a source is 400, whatever it says.
        const expected = isSource(edge, name) ? 400 : isRefused ? 403 : 200
        t.equal(answer.status, expected, `${spelt} at ${edge}`)
        if (answer.status !== 403) continue
        const text = answer.content.toString()
        t.ok(text.startsWith(`${name}, in whatever spelling: `), text)
      }
    }
    const codes = new Set(gateway.log.lines.map(({ facts }) => facts['code']))
    t.ok(codes.has('identity_field') && codes.has('foreign_field'), edge)
  }
})

t.test('83, 95: a host that a balancer in front repeats is no other host', async t => {
  const { ask } = await startChecks(t, { edge: 'nginx', settings: { passthroughPaths: ['/p/'] } })
  const { ask: atCaddy } = await startChecks(t, {
    edge: 'caddy',
    settings: { passthroughPaths: ['/p/'] },
  })
  const domain = 'app.example.org'
  for (const [name, value, status] of [
    ['X-Forwarded-Host', domain, 200],
    ['X-Forwarded-Host', domain.toUpperCase(), 200],
    ['X-Forwarded-Host', `${domain}:443, ${domain}`, 200],
    ['X-Forwarded-Host', `${domain}, evil.example`, 403],
    ['X-Forwarded-Host', 'evil.example', 403],
    ['X-Forwarded-Host', `evil.example/?host=${domain}`, 403],
    ['X-ProxyHost', `evil.example/?host=${domain}`, 403],
    ['Forwarded', `host="${domain} @evil.example"`, 403],
    ['Forwarded', `host=${domain} @evil.example`, 403],
    ['Forwarded', `for="_a;host=evil.example;b";host=${domain}`, 403],
    ['Forwarded', `for="[2001:db8::1]:80";host="${domain}:443";proto=https`, 200],
    ['Forwarded', 'evil.example', 403],
    ['Forwarded', `for=192.0.2.1;host=${domain};proto=https`, 200],
    ['Forwarded', 'for=192.0.2.1;proto=http', 200],
    ['Forwarded', `host="${domain}", for=192.0.2.1; HOST = "evil.example"`, 403],
    ['X-Forwarded-Proto', 'http', 200],
    ['CF-Connecting-IP', '192.0.2.77', 200],
  ] as const) {
    t.equal((await ask('/p/', { [name]: value })).status, status, `${name}: ${value}`)
    if (name === 'X-Forwarded-Host' || name === 'X-Forwarded-Proto') continue
    t.equal((await atCaddy('/p/', { [name]: value })).status, status, `${name}: ${value}`)
  }
})

t.test('the page of the edges has the table', async t => {
  const page = await readFile(join(packageRoot(), 'docs/forward-auth.md'), 'utf8')
  const passed = /^Looked at, and passed on: (.*)$/m.exec(page)?.[1]?.matchAll(/`([^`]+)`/g) ?? []
  const names = [...passed].map(([, name = '']) => name)
  t.ok(names.length > 10)
  for (const name of names) t.equal(foreignName(name), undefined, name)
})
