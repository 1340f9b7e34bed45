/**
 * Tokens of people at several instances with one store, and over the end of a process.
 */

import { readFileSync, watch } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../../lib/async/clock.ts'
import { tokenField } from '../../../lib/auth/access/passthrough.ts'
import { tokensPath } from '../../../lib/auth/gate/gateway-paths.ts'
import type { Response } from '../../../lib/http/message/message.ts'
import { AuthproxyProcess, startable } from '../../fixtures/gateway/authproxy-process.ts'
import { formOf, idOf, ownForm, startTokens, tokenIn } from '../../fixtures/gateway/token-lab.ts'
import { WholeBrowser } from '../../fixtures/gateway/whole-browser.ts'
import { ScriptedIdp, sp } from '../../fixtures/saml/idp.ts'
import { startStore, storeProgram } from '../../fixtures/state/real-store.ts'
import { until } from '../../fixtures/time/until.ts'

const skip = storeProgram === undefined ? 'needs redis-server' : false
t.setTimeout(240_000)

t.test(
  '140: what is made at one instance counts, is shown and is ended at another',
  { skip },
  async t => {
    const store = await startStore(t)
    const state = { url: `redis://127.0.0.1:${store.port}` }
    const one = await startTokens(t, {
      clock: systemClock,
      settings: { state, tokens: { longest: '30d' } },
    })
    const keys = { shared: true, file: one.file }
    const two = await startTokens(t, {
      clock: systemClock,
      settings: { state, keys, tokens: { longest: '30d' } },
    })
    const ada = await one.signIn('ada@example.org', ['ops'])
    const token = await one.make(ada)
    t.equal(await two.status(token), 200)
    const shown = async () => (await two.ask(tokensPath, { Cookie: ada })).text
    await until(async () => (await shown()).includes(idOf(token)))
    t.notMatch(
      (await two.ask(tokensPath, { Cookie: await two.signIn('olga@example.org') })).text,
      idOf(token),
    )
    await two.post(ada, { end: idOf(token) })
    t.equal(await two.status(token), 401)
    await until(async () => (await one.status(token)) === 401)
    const next = await one.make(ada)
    await until(async () => (await shown()).includes(idOf(next)))
    await two.signIn('ada@example.org', [])
    await until(async () => (await one.status(next)) === 401)
    const last = await one.make(await one.signIn('ada@example.org', []))
    await two.endUser('ada@example.org')
    await until(async () => (await one.status(last)) === 401)
    t.notMatch(store.cli('--raw', 'KEYS', '*'), 'ada@example.org', 'without the name of the person')
  },
)

for (const when of ['the line is there', 'the answer is there']) {
  t.test(`131: a process that is killed when ${when} leaves no token without a line`, async t => {
    const { directory, settings, port } = await startable(t)
    const own = { ...settings, domain: sp.domain, tokens: { longest: '30d' } }
    const gateway = await AuthproxyProcess.start(t, { directory, settings: own })
    await gateway.until('ready')
    const browser = new WholeBrowser(t, port)
    await browser.signIn(new ScriptedIdp('okta', { now: Date.now }))
    const watcher = watch(directory, (_, name) => {
      if (!/^app\.json\.tokens\.[0-9a-f]{16}$/.test(name ?? '')) return
      const text = readFileSync(join(directory, name ?? ''), 'utf8')
      if (text.includes('killed') && when === 'the line is there') gateway.signal('SIGKILL')
    })
    t.teardown(() => watcher.close())
    const form = formOf({ name: 'killed' })
    const answer = await browser.post(tokensPath, form, ownForm).catch(() => undefined)
    gateway.signal('SIGKILL')
    t.equal(await gateway.exit, 'SIGKILL')
    watcher.close()
    const again = await AuthproxyProcess.start(t, { directory, settings: own })
    await again.until('ready')
    const text = async () => textOf(await browser.navigate(tokensPath))
    const [, id = ''] = /<dt>ID in the log<\/dt>\s*<dd>([0-9a-f]{32})/.exec(await text()) ?? []
    t.not(id, '', 'the line is shown')
    const token = answer && tokenIn({ text: textOf(answer) })
    t.ok(when === 'the line is there' || token !== undefined)
    if (token !== undefined) t.equal(idOf(token), id)
    await browser.post(tokensPath, formOf({ end: id }), ownForm)
    t.notMatch(await text(), id)
    const fields = { [tokenField]: `Bearer ${token}` }
    t.equal((await browser.send('GET', '/', fields)).status, 401)
    await again.stop()
  })
}

function textOf({ content }: Response): string {
  return content.kind === 'bytes' ? content.bytes.toString() : ''
}
