/**
 * Machines of two architectures and an archive whose indexes contradict each other about one package: each machine gets what it would
 * get from the archive itself, whatever the others have fetched.
 */
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { Apt, noApt } from '../fixtures/archive/apt.ts'
import { hexOf, releaseOf } from '../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { file, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'

t.setTimeout(600_000)

const path = 'pool/main/t/tool_1.0_all.deb'
const stanza = (content: string): string =>
  `Package: tool\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: x\nFilename: ${path}\nSize: ${content.length}\nSHA256: ${hexOf('sha256', content)}\n`

/** A port that leads to the cache from an address of its own, because apt cannot choose its address. */
async function doorFor(t: Test, cache: TestCache, localAddress: string): Promise<string> {
  const door = createServer(near => {
    const far = connect({ port: cache.port, host: '127.0.0.1', localAddress })
    near.pipe(far).pipe(near)
    near.on('error', () => far.destroy())
    far.on('error', () => near.destroy())
  })
  await new Promise<void>(resolve => door.listen(0, '127.0.0.1', resolve))
  t.teardown(() => door.close())
  const address = door.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

async function lab(t: Test) {
  const origin = await ScriptedOrigin.listen(t)
  const indexes = ['i386', 'amd64'].flatMap(architecture => {
    const index = `main/binary-${architecture}/Packages`
    const plain = Buffer.from(stanza(`the package as ${architecture} has it`))
    return [[index, plain] as const, [`${index}.gz`, gzipSync(plain)] as const]
  })
  const date = new Date().toUTCString().replace('GMT', 'UTC')
  const release = `Architectures: i386 amd64\nComponents: main\n${releaseOf(indexes, ['SHA256'], date)}`
  for (const [of, content] of [...indexes, ['Release', release] as const]) {
    origin.at(`/debian/dists/stable/${of}`, file({ content }))
  }
  origin.at(`/debian/${path}`, file({ content: 'the package as i386 has it' }))
  const settings = { archives: [{ origins: [`127.0.0.1:${origin.port}/debian`] }] }
  const cache = await TestCache.start(t, { origins: [origin], settings })
  const directory = t.testdir()
  let machines = 1
  const machine = async (architecture: 'i386' | 'amd64', direct?: 'direct'): Promise<Apt> => {
    machines += 1
    const proxy = await doorFor(t, cache, `127.0.0.${machines}`)
    return Apt.create({
      directory: join(directory, `machine-${machines}`),
      keyring: '/usr/share/keyrings/none.gpg',
      trusting: true,
      ...(direct === undefined && { proxy }),
      sources: [{ uri: origin.url('/debian'), suite: 'stable', components: ['main'] }],
      settings: { 'APT::Architecture': architecture, 'Acquire::Retries': '0' },
      files: {
        'apt.conf.d/99architecture': `#clear APT::Architectures;\nAPT::Architectures { "${architecture}"; };\n`,
      },
    })
  }
  const updated = async (apt: Apt): Promise<void> => {
    const { code, output } = await apt.update()
    t.equal(code, 0, output)
    await cache.quiet()
    await cache.until(() => cache.working.adoptions === 0)
  }
  const gets = async (apt: Apt) => {
    await apt.clean()
    const found = await apt.download('tool')
    await cache.quiet()
    return found
  }
  return { cache, settings, machine, updated, gets, url: origin.url(`/debian/${path}`) }
}

t.test('machines of two architectures', { skip: noApt }, async t => {
  const { cache, settings, machine, updated, gets, url } = await lab(t)
  const [direct, directOther] = [await machine('i386', 'direct'), await machine('amd64', 'direct')]
  for (const apt of [direct, directOther]) await updated(apt)
  t.match(await gets(direct), { code: 0 }, 'direct, i386')
  t.match(await gets(directOther), { code: 100, output: /Hash Sum mismatch|unexpected size/ })
  const [first, second, third] = [
    await machine('i386'),
    await machine('i386'),
    await machine('i386'),
  ]
  for (const apt of [first, second]) await updated(apt)
  for (const apt of [first, second]) t.match(await gets(apt), { code: 0 })
  const other = await machine('amd64')
  await updated(other)
  t.match(await gets(other), { code: 100, output: /indexes of the archive contradict each other/ })
  await updated(third)
  for (const apt of [first, second, third]) t.match(await gets(apt), { code: 0 })
  await cache.restart()
  for (const apt of [second, third]) t.match(await gets(apt), { code: 0 }, 'after a restart')

  const [archive] = settings.archives
  await cache.reload({ archives: [{ ...archive, verify: 'off' }] })
  const off = await gets(other)
  t.match(off, { code: 100, output: /Hash Sum mismatch|unexpected size/ })
  t.notMatch(off.output, /520/, 'apt compares, not the cache')
  const explained = () => cache.command({ do: 'explain', of: url })
  t.notMatch(await explained(), { out: /Named by/ })
  await cache.reload(settings)
  await updated(other)
  t.match(await explained(), { out: /Contradiction/ }, 'compared again')
  for (const apt of [first, third]) t.match(await gets(apt), { code: 0 })
})
