/**
 * Sources that demand a name and a password: they reach the origin, nobody else gets what they opened, no log shows them.
 */
import t from 'tap'
import { noLab, report, setUp, sourcesOf } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'

const secret = 's3cret-pa55'

t.setTimeout(600_000)

t.test('sources with credentials', { skip: noLab }, async t => {
  const lab = await setUp(t, { origin: { credentials: `bob:${secret}` } })
  const { origin } = lab
  const deb = `${origin.url}/debian/pool/main/a/alpha/alpha_1.0_amd64.deb`
  const settings = { 'Acquire::Retries': '0' }
  const bob = { Authorization: `Basic ${Buffer.from(`bob:${secret}`).toString('base64')}` }
  const mallory = { Authorization: `Basic ${Buffer.from('mallory:guess').toString('base64')}` }

  await t.test('without them nothing: 401 stays 401', async t => {
    t.equal((await lab.fetch(deb)).status, 401)
  })

  await t.test('from auth.conf', async t => {
    const credentials = [`machine ${origin.url}/ login bob password ${secret}`]
    const apt = await lab.apt('auth-conf', { credentials, settings })
    const update = await apt.update()
    t.strictSame([update.code, update.warnings, update.errors], [0, [], []], report(update))
    const install = await apt.download('zeta', 'delta')
    t.equal(install.code, 0, report(install))
  })

  await t.test('in the address', async t => {
    const url = origin.url.replace('http://', `http://bob:${secret}@`)
    const apt = await lab.apt('address', { sources: sourcesOf(url), settings })
    const update = await apt.update()
    t.strictSame([update.code, update.errors], [0, []], report(update))
    const install = await apt.download('zeta', 'delta')
    t.equal(install.code, 0, report(install))
  })

  await t.test('what they opened is closed to others', { skip: peerUnderTest }, async t => {
    t.equal((await lab.fetch(deb, bob)).status, 200)
    t.equal((await lab.fetch(deb)).status, 401)
    t.equal((await lab.fetch(deb, mallory)).status, 401)
    t.equal((await lab.fetch(deb, bob)).status, 200, 'and a refusal is not remembered against bob')
    await origin.goAway()
    t.not((await lab.fetch(deb)).status, 200, 'nor does an outage open it')
    await origin.comeBack()
  })

  await t.test('no log line shows them', { skip: peerUnderTest }, async t => {
    t.notMatch(lab.proxy.output, secret)
    t.notMatch(lab.proxy.output, bob.Authorization.slice(6))
  })
})
