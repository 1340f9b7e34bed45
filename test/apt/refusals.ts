/**
 * The real apt, direct and through the cache: many redirects, redirects that are refused for good, the prefixes of an older cache, and a
 * policy that changes after an archive was adopted.
 */
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { freePort } from '../fixtures/process/ports.ts'

const packages = [{ name: 'alpha', version: '1.0' }]
const options = { skip: noLab || peerUnderTest }
const retry = { 'Acquire::Retries': '0' }

t.setTimeout(300_000)

/** Leads on `hops` times, each time by another path, and then to the origin. */
async function redirector(t: Test, at: { port: number; to: string; hops: number }): Promise<void> {
  const server = createServer((request, response) => {
    const [, hop = '0', path = request.url ?? '/'] =
      /^\/hop(\d+)(\/.*)$/.exec(request.url ?? '') ?? []
    const next = Number(hop) + 1
    const location = next < at.hops ? `/hop${next}${path}` : `${at.to}${path}`
    response.writeHead(302, { Location: location }).end()
  })
  server.listen(at.port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
}

for (const [hops, allowed] of [
  [9, true],
  [12, false],
] as const) {
  t.test(`${hops} redirects for each file`, options, async t => {
    const port = await freePort()
    const lab = await setUp(t, { packages, otherPorts: [port] })
    await redirector(t, { port, to: lab.origin.url, hops })
    const sources = [
      { uri: `http://127.0.0.1:${port}/debian`, suite: 'test', components: ['main'] },
    ]
    for (const [way, change] of [
      ['direct', { proxy: '' }],
      ['through', {}],
    ] as const) {
      const apt = await lab.apt(way, { sources, settings: retry, ...change })
      const update = await apt.update()
      t.comment(`${way}: exit ${update.code}, ${[...update.errors, ...update.warnings].join(' ')}`)
      if (allowed) {
        t.strictSame([update.code, update.warnings], [0, []], report(update))
        t.equal((await apt.download('alpha')).code, 0, way)
      } else if (way === 'through') {
        t.match(update.errors.join() + update.warnings.join(), /520 .*redirects/, report(update))
      }
    }
  })
}

t.test('a redirect to what is no address ends a download with 100', options, async t => {
  const port = await freePort()
  const lab = await setUp(t, { packages, otherPorts: [port] })
  const server = createServer((request, response) => {
    const lost = (request.url ?? '').endsWith('.deb')
    const location = lost ? 'ftp://archive.example.org/lost' : `${lab.origin.url}${request.url}`
    response.writeHead(302, { Location: location }).end()
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const sources = [{ uri: `http://127.0.0.1:${port}/debian`, suite: 'test', components: ['main'] }]
  for (const [way, change] of [
    ['direct', { proxy: '' }],
    ['through', {}],
  ] as const) {
    const apt = await lab.apt(way, { sources, settings: retry, ...change })
    t.equal((await apt.update()).code, 0)
    const download = await apt.download('alpha')
    t.equal(download.code, 100, way)
    t.comment(`${way}: ${download.errors.join(' ')}`)
    if (way === 'through')
      t.match(
        download.errors.join(),
        /520 .*not followed.*not an http or https URL/,
        report(download),
      )
  }
})

t.test('a sources.list for apt-cacher-ng, whose prefix is /debian', options, async t => {
  const lab = await setUp(t, { packages })
  const settings = {
    domains: ['ftp.debian.org', `127.0.0.1:${lab.origin.port}`],
    remap: [{ from: 'ftp.debian.org/debian', to: `${lab.origin.url}/debian` }],
  }
  lab.replace(await lab.proxy.restart(settings))
  const sources = [
    { uri: `${lab.proxy.url}/debian`, suite: 'test', components: ['main'] },
    { uri: `${lab.proxy.url}/kali`, suite: 'test', components: ['main'] },
  ]
  const apt = await lab.apt('prefix', { sources: sources.slice(0, 1), settings: retry, proxy: '' })
  const update = await apt.update()
  t.strictSame([update.code, update.warnings], [0, []], report(update))
  t.equal((await apt.download('alpha')).code, 0)
  const unknown = await lab.apt('unknown', {
    sources: sources.slice(1),
    settings: retry,
    proxy: '',
  })
  t.match((await unknown.update()).output, '404  The path names no host')
})

t.test('`verify: off` holds for an archive that was adopted before', options, async t => {
  const lab = await setUp(t, { packages })
  const sources = [{ uri: `${lab.origin.url}/debian`, suite: 'test', components: ['main'] }]
  const apt = await lab.apt('before', { sources, settings: retry })
  t.equal((await apt.update()).code, 0)
  const path = 'debian/pool/main/a/alpha/alpha_1.0_amd64.deb'
  const file = join(lab.archive.root, path)
  const content = await readFile(file)
  content.writeUInt8(content.readUInt8(content.length - 1) ^ 1, content.length - 1)
  await writeFile(file, content)
  await t.rejects(lab.fetch(`${lab.origin.url}/${path}`), 'the last bytes are held back')
  const archives = [{ origins: [`${lab.origin.url}/debian`], verify: 'off' }]
  lab.replace(await lab.proxy.restart({ archives }))
  const answer = await lab.fetch(`${lab.origin.url}/${path}`)
  t.equal(answer.status, 200, answer.reason)
  t.strictSame(answer.content, content)
})
