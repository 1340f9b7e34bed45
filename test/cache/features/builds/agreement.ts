/**
 * `explain` and the answer agree about requests within a build.
 */
import t from 'tap'
import { agree, sceneOf, seen } from '../../../fixtures/cache/agreement.ts'

t.setTimeout(600_000)

t.test('requests within a build', async t => {
  const scene = await sceneOf(t, {}, { settings: { builds: { clients: ['127.0.0.1/32'] } } })
  const { archive, cache, origin } = scene
  archive.serve(await archive.ofDay(1, { byHash: true }))
  const build = (act: string, name: string) =>
    cache.command({ do: 'build', act, name, file: '', json: false })
  await build('record', 'image')
  const paths = [archive.release, archive.index, `${archive.root}/pool/main/p/p_1_all.deb`, 'none']
  const within = (name: string, path: string) =>
    `/_cachesvc/build/${name}/127.0.0.1:${origin.port}/${path}`
  const all = async () => {
    for (const path of paths) {
      for (const method of ['GET', 'HEAD'] as const) {
        for (const name of ['image', 'unknown.']) {
          for (const from of ['127.0.0.1', '127.0.0.2']) {
            await agree(t, scene, { url: within(name, path), method, from })
          }
        }
        const user = Buffer.from('build:image').toString('base64')
        const fields = { 'Proxy-Authorization': `Basic ${user}` }
        await agree(t, scene, { url: origin.url(`/${path}`), method, fields })
      }
    }
  }
  await all()
  await agree(t, scene, { url: within('never', paths[0] ?? ''), from: '127.0.0.2' })
  await build('lock', 'image')
  paths.push(`${archive.root}/pool/main/p/never_1_all.deb`)
  await all()
})

t.test('every decision was compared', t => {
  for (const word of ['hit recorded', 'failed no-build', 'failed not-recorded', 'miss absent'])
    t.ok(seen.has(word), word)
  t.end()
})
