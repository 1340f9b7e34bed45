/**
 * What a build got, as CycloneDX and as in-toto resolvedDependencies, and whether archives still have it: recorded with real apt, verified
 * by way of a proxy that has nothing stored.
 */
import { createHash } from 'node:crypto'
import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { directoryFor, noLab, setUp } from '../fixtures/cache/lab.ts'
import { ProxyProcess, peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt } from '../fixtures/process/command.ts'

const skip = noLab || (peerUnderTest && 'SKIPPED: builds are of cachesvc')
const program = join(packageRoot(), 'bin/cachesvc')

t.setTimeout(600_000)

t.test('the materials of a build, and which package differs', { skip }, async t => {
  const directory = directoryFor(t)
  const packages = [
    { name: 'base', version: '2:1.0', size: 60_000 },
    { name: 'extra', version: '1.0', depends: 'base' },
  ]
  const lab = await setUp(t, { directory, packages })
  const config = (place: string) => ['--config', join(directory, place, 'cachesvc.yaml')]
  const cachesvc = async (...words: readonly string[]) => {
    const { code, stdout, stderr } = await attempt(program, words)
    return { code, said: `${stdout}${stderr}` }
  }
  const build = (...words: readonly string[]) => cachesvc('build', ...words, ...config('proxy'))
  t.match(await build('record', 'image'), { code: 0 })
  const apt = await lab.apt('apt', { proxy: lab.proxy.url.replace('//', '//build:image@') })
  t.equal((await apt.update()).code, 0)
  t.equal((await apt.download('extra')).code, 0)
  t.match(await build('lock', 'image'), { code: 0 })

  const formats = ['list', 'spdx', 'cyclonedx', 'in-toto'] as const
  const files = formats.map(format => join(directory, format))
  for (const [index, format] of formats.entries()) {
    const file = files[index] ?? ''
    t.match(await build('export', 'image', file, `--format=${format}`), { code: 0 }, format)
    const again = await build('export', 'image', `--format=${format}`)
    t.equal(again.said, await readFile(file, 'utf8'), 'the same bytes')
  }
  const url = `${lab.origin.url}/debian/pool/main/e/extra/extra_1.0_amd64.deb`
  const path = join(lab.archive.root, 'debian/pool/main/e/extra/extra_1.0_amd64.deb')
  const sha256 = createHash('sha256')
    .update(await readFile(path))
    .digest('hex')

  const bill = JSON.parse(await readFile(join(directory, 'cyclonedx'), 'utf8'))
  t.match(bill, { bomFormat: 'CycloneDX', specVersion: '1.6', version: 1 })
  t.match(
    bill.serialNumber,
    /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
  )
  const component = bill.components.find(({ name }: { name: string }) => name === 'extra')
  t.match(component, {
    type: 'library',
    version: '1.0',
    hashes: [{ alg: 'SHA-256', content: sha256 }],
    externalReferences: [{ type: 'distribution', url }],
  })
  t.equal(component.purl, 'pkg:deb/debian/extra@1.0?arch=amd64')
  const references = bill.components.map((one: { 'bom-ref': string }) => one['bom-ref'])
  t.equal(new Set(references).size, references.length, 'each reference is another')

  const { resolvedDependencies } = JSON.parse(await readFile(join(directory, 'in-toto'), 'utf8'))
  t.ok(
    resolvedDependencies.some((one: object) => {
      const wanted = { name: 'extra_1.0_amd64.deb', uri: component.purl, digest: { sha256 } }
      return JSON.stringify(one) === JSON.stringify({ ...wanted, downloadLocation: url })
    }),
  )
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    predicate: { buildDefinition: { resolvedDependencies } },
  }
  files.push(join(directory, 'statement'), join(directory, 'envelope'))
  await writeFile(join(directory, 'statement'), JSON.stringify(statement))
  const payload = Buffer.from(JSON.stringify(statement)).toString('base64')
  await writeFile(join(directory, 'envelope'), JSON.stringify({ payload }))

  /** Verifies by way of a proxy that has nothing stored. */
  const verify = async (place: string, file: string) => {
    const proxy = await ProxyProcess.start({
      directory: join(directory, place),
      domains: [lab.origin.authority],
    })
    t.teardown(() => proxy.stop())
    const result = await cachesvc('build', 'verify', file, ...config(place))
    await proxy.stop()
    return result
  }
  for (const [index, file] of files.entries()) {
    const same = await verify(`same-${index}`, file)
    t.match(same, { code: 0, said: /^(\d+) of \1 files as named, 0 not$/m }, file)
  }

  await appendFile(path, 'x')
  await lab.archive.publish([...packages, { name: 'another', version: '1.0' }])
  await appendFile(path, 'x')
  const differs = await verify('differs', join(directory, 'cyclonedx'))
  t.equal(differs.code, 1)
  t.match(differs.said, `${url}: it has the SHA-256 `)
  t.match(differs.said, `${sha256} is named`)
  t.match(differs.said, /, 1 not; \d+ index files changed with an update$/m)
  t.notMatch(differs.said, 'base_1.0')

  lab.origin.behaviour = 'missing'
  lab.origin.only = /extra_1/
  const gone = await verify('gone', join(directory, 'in-toto'))
  t.match(gone, { code: 1, said: `${url}: 404 Not Found` })
  t.match(await build('verify', path), { code: 1, said: /it names no files/ })
  t.match(await build('verify'), { code: 2 })
})
