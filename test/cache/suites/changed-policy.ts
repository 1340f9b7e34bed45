/**
 * A policy holds when a file is asked for, whatever held when its suite was adopted.
 */
import t, { type Test } from 'tap'
import { type ChangingArchive, changingArchives } from '../../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../../fixtures/archive/signing-key.ts'
import { file } from '../../fixtures/http/scripted-origin.ts'

t.setTimeout(300_000)

const path = 'debian/pool/main/p/p_1_all.deb'

/** An adopted suite whose package the origin has with another content; `get` says whether a client gets that. */
async function adopted(t: Test, about: object, sign?: (text: string) => Promise<Buffer>) {
  const now = Date.now() + 5000
  const archive = (await changingArchives(t, { archives: { debian: about }, now }))('debian')
  archive.serve(await archive.ofDay(1, sign && { sign }))
  await archive.update()
  archive.origin.at(`/${path}`, file({ content: 'another content' }))
  const { cache, origin, clock } = archive
  const gets = async (): Promise<boolean> => {
    clock.advance(5000)
    const { text, status } = await cache.get(origin.url(`/${path}`))
    await cache.quiet()
    return status === 200 && text === 'another content'
  }
  const reload = async (changed: object): Promise<void> => {
    const origins = [`127.0.0.1:${origin.port}/debian`]
    await cache.reload({ freshness: { floor: '0s' }, archives: [{ origins, ...changed }] })
  }
  return { archive, gets, reload }
}

/** Waits until nothing is adopted. */
function settled({ cache }: ChangingArchive): Promise<void> {
  return cache.until(
    () => cache.working.adoptions === 0,
    () => false,
  )
}

t.test('`verify: off` holds for a suite that was adopted before, and back again', async t => {
  const { archive, gets, reload } = await adopted(t, {})
  t.notOk(await gets(), 'it is compared')
  await reload({ verify: 'off' })
  t.ok(await gets(), 'not any more')
  await settled(archive)
  const { text } = await archive.cache.get(
    `/_cachesvc/explain?url=${encodeURIComponent(archive.origin.url(`/${path}`))}`,
  )
  t.notMatch(text, /Must be/)
  await reload({})
  await settled(archive)
  t.notOk(await gets(), 'compared again')
  await reload({ verify: 'off' })
  await archive.cache.restart()
  await settled(archive)
  t.ok(await gets(), 'after a restart')
  t.equal(await archive.cache.metric('cachesvc_adopted_suites'), 0)
})

t.test('`verify: off` at a restart', async t => {
  const { archive, gets, reload } = await adopted(t, { verify: 'off' })
  await reload({})
  await archive.update()
  t.notOk(await gets())
  await archive.cache.restart()
  t.notOk(await gets(), 'known after a restart')
})

t.test('`verify: require` holds for a suite that was adopted unsigned', async t => {
  const { archive, gets, reload } = await adopted(t, {})
  await reload({ verify: 'require' })
  t.ok(await gets(), 'nothing is compared with an unsigned suite')
  await settled(archive)
  await reload({})
  await settled(archive)
  t.notOk(await gets(), 'compared again')
})

t.test('another keyring judges the adopted suite anew', { skip: noSigningKey }, async t => {
  const [key, other] = await Promise.all([SigningKey.create(), SigningKey.create()])
  t.teardown(() => Promise.all([key.close(), other.close()]))
  const trusting = (one: SigningKey) => ({ verify: 'require', signed_by: [one.keyring] })
  const { archive, gets, reload } = await adopted(t, trusting(key), text => key.clearSign(text))
  t.notOk(await gets(), 'compared')
  await reload(trusting(other))
  await settled(archive)
  t.ok(await gets(), 'its key is not trusted any more')
  await reload(trusting(key))
  await settled(archive)
  t.notOk(await gets(), 'trusted again')
})

for (const [confirmed, title] of [
  ['index', 'a new Release is not given with an index from before it'],
  ['release', 'an old Release is not given with a new index'],
] as const) {
  t.test(`with \`verify: off\` ${title}`, async t => {
    const archives = { debian: { verify: 'off' } }
    const now = Date.now() + 5000
    const settings = { freshness: { floor: '5s' } }
    const archive = (await changingArchives(t, { archives, now, settings }))('debian')
    archive.serve(await archive.ofDay(1))
    t.strictSame(await archive.update(), { day: '1', fits: true })
    // Another client has just had this file confirmed when the archive publishes.
    await archive.get(archive[confirmed])
    archive.serve(await archive.ofDay(2))
    archive.clock.advance(1000)
    t.strictSame(await archive.update(), { day: '2', fits: true })
  })
}
