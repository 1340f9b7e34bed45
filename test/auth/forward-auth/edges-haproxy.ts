/** HAProxy with the files of packaging/edges, in front of authproxy and an application: as a gateway, it lets in none but those who may. */
import t from 'tap'
import { startBehindEdge, toldBy } from '../../fixtures/edges/behind-edge.ts'
import { testEdge } from '../../fixtures/edges/edge-tests.ts'
import { lacking } from '../../fixtures/process/command.ts'

t.setTimeout(300_000)

testEdge(t, 'haproxy')

const skip = lacking('haproxy')

t.test('haproxy: a field of the operator’s own is told by the check alone', { skip }, async t => {
  const identity = { names: ['authproxy', { field: 'Team', from: 'groups' }] }
  const access = [{ path: '/', allow: 'anyone' }]
  const all = await startBehindEdge(t, 'haproxy', { settings: { identity, access } })
  const { browser, newBrowser, whole } = all
  const claim = { Team: 'mallory' }
  t.notOk(toldBy(await newBrowser().send('GET', '/x', claim)).fields.has('Team'))
  await browser.signIn(whole.idp, { to: '/__authproxy/whoami' })
  t.same(toldBy(await browser.send('GET', '/x', claim)).fields.all('Team'), ['staff,admins'])
})
