/**
 * Signatures that apt will refuse: the cache page and the metrics name the suite, the day and why.
 */
import t from 'tap'
import { changingArchives } from '../fixtures/archive/changing-archive.ts'
import { noSigningKey, SigningKey } from '../fixtures/archive/signing-key.ts'

t.setTimeout(120_000)

t.test('of two suites the one whose signature ends', { skip: noSigningKey }, async t => {
  const [sound, ending] = [
    await SigningKey.create(),
    await SigningKey.create({ algorithm: 'rsa2048' }),
  ]
  t.teardown(() => Promise.all([sound.close(), ending.close()]))
  const of = await changingArchives(t, {
    archives: {
      sound: { signed_by: [sound.keyring] },
      ending: { signed_by: [ending.keyring] },
    },
    now: Date.now() + 5000,
  })
  const both = [
    [of('sound'), sound],
    [of('ending'), ending],
  ] as const
  for (const [archive, key] of both) {
    archive.serve(await archive.ofDay(1, { sign: text => key.clearSign(text) }))
    await archive.update()
    await archive.update()
  }
  const [[{ cache }]] = both
  const { text: page } = await cache.get('/_cachesvc/cache')
  t.equal(page.match(/apt takes it until 2030-02-01: an RSA key of 2048 bits/g)?.length, 1)
  const { text: metrics } = await cache.get('/_cachesvc/metrics')
  const lines = metrics.split('\n').filter(line => line.startsWith('cachesvc_signature_end'))
  t.equal(lines.length, 1)
  t.match(
    lines[0],
    /suite="[^"]+\/ending\/dists\/stable",because="an RSA key of 2048 bits"\} 1896134400$/,
  )
  t.equal(await cache.metric('cachesvc_refused_signatures'), 0)
  await cache.restart()
  t.match((await cache.get('/_cachesvc/cache')).text, 'until 2030-02-01', 'after a restart')
})
