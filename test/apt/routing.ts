/**
 * Routing through the proxy: two names of one archive share what is stored, and both ends are held against the policy.
 */
import { join } from 'node:path'
import t from 'tap'
import { directoryFor, noLab, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt } from '../fixtures/process/command.ts'
import { eventually, freePort } from '../fixtures/process/ports.ts'

t.test('two names of one archive', { skip: noLab || peerUnderTest }, async t => {
  const state = directoryFor(t)
  const port = await freePort()
  const lab = await setUp(t, {
    directory: state,
    otherPorts: [port],
  })
  // The rules name the origin's port, which was not known before.
  const { authority } = lab.origin
  const settings = {
    freshness: { floor: '0s', negative: '0s' },
    domains: [authority, `127.0.0.1:${port}`, 'old.example.org', 'private.example.org'],
    remap: [
      { from: `127.0.0.1:${port}/pub`, to: `${authority}/debian` },
      { from: 'old.example.org', to: 'elsewhere.example.org' },
      { from: 'http://private.example.org', to: `http://${authority}/debian` },
    ],
  }
  lab.replace(await lab.proxy.restart(settings))
  const direct = `${lab.origin.url}/debian/dists/test/InRelease`
  const other = `http://127.0.0.1:${port}/pub/dists/test/InRelease`
  const fresh = { 'Cache-Control': 'max-stale' }
  t.match((await lab.fetch(direct)).fields, { 'x-cache': 'MISS' })
  // A client has its file a moment before the entry is written.
  const isHit = async () => (await lab.fetch(other, fresh)).fields['x-cache'] === 'HIT'
  t.ok(await eventually(isHit))
  const shared = await lab.fetch(other, fresh)
  t.strictSame(shared.content, (await lab.fetch(direct)).content)
  t.equal(lab.origin.seen(/InRelease/).filter(({ status }) => status === 200).length, 1)

  const refused = await lab.fetch('http://old.example.org/x')
  t.equal(refused.status, 403, 'the end it is routed to is not listed')
  t.match(refused.content.toString(), /elsewhere\.example\.org:80 is refused by `domains`/)

  lab.origin.forget()
  const secret = {
    Authorization: 'Basic Ym9iOnMzY3JldA==',
    'Cache-Control': 'no-store',
    Cookie: 'a=b',
  }
  await lab.fetch('http://private.example.org/dists/test/Release', secret)
  t.match(lab.origin.requests, [{ target: '/debian/dists/test/Release', status: 200 }])
  t.equal(lab.origin.requests[0]?.fields.authorization, undefined, 'credentials stay behind')
  t.equal(lab.origin.requests[0]?.fields.cookie, undefined)
  await lab.fetch(direct, secret)
  t.equal(lab.origin.requests.at(-1)?.fields.authorization, secret.Authorization)

  const page = (await lab.fetch('/_cachesvc/')).content.toString()
  const shown = [`127.0.0.1:${port}/pub`, 'old.example.org', 'http://private.example.org']
  const places = shown.map(from => page.indexOf(`<code>${from}</code> from`))
  t.strictSame(
    places,
    [...places].sort((a, b) => a - b),
  )
  t.ok(
    places.every(at => at > 0),
    'rules are shown in their order',
  )

  const program = join(import.meta.dirname, '../../bin/cachesvc.js')
  const file = join(state, 'proxy/cachesvc.yaml')
  const told = await attempt(process.execPath, [program, 'explain', other, '-c', file])
  t.equal(told.code, 0)
  t.match(
    told.stdout.toString(),
    `Routed by       remap[0], from 127.0.0.1:${port}/pub to ${authority}/debian`,
  )
  t.ok(told.stdout.toString().includes(`Key             ${direct}\n`), told.stdout.toString())
  t.match(told.stderr, /remap\[1\]\.to: requests routed there are refused: .*`domains`/)
})
