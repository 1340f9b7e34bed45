import t from 'tap'
import { formReader } from '../../../lib/auth/login/resubmission.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { gatewayConfig } from '../../fixtures/gateway/gateway.ts'
import { makeRequest } from '../../fixtures/saml/browser.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const config = (replaySize: string) =>
  gatewayConfig({
    domain: 'app.example.org',
    idpMetadataFile: '/idp.xml',
    saml: { replaySize },
    proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
  })
const own = { Origin: 'https://app.example.org', 'Content-Type': 'text/plain;charset=x' }

function form(fields: Readonly<Record<string, string>>, content = 'a=b', method = 'POST') {
  const length = { 'Content-Length': String(content.length) }
  const all = Fields.of(...Object.entries({ ...length, ...own, ...fields }))
  return makeRequest(method, '/', { fields: all, content })
}

const foreign = (origin: string, site?: string) => {
  const content = Buffer.from('a=b')
  const marked = site === undefined ? {} : { site }
  return { contentType: own['Content-Type'], content, origin, ...marked }
}

t.test('a form is kept, or it is said why not', async t => {
  const read = formReader(new ManualClock(0))
  for (const [expected, request, size = '1K', sender = 'known'] of [
    [{ contentType: own['Content-Type'], content: Buffer.from('a=b') }, form({})],
    [undefined, form({}, 'a=b', 'PUT')],
    [undefined, form({ 'Content-Length': '0' }, '')],
    ['off', form({}), '0'],
    [foreign('https://evil.example'), form({ Origin: 'https://evil.example' })],
    [foreign('https://app.example.org', 'same-site'), form({ 'Sec-Fetch-Site': 'same-site' })],
    [foreign('null'), form({ Origin: 'null' })],
    // A page with `Referrer-Policy: no-referrer` posts to its own origin so.
    [
      { contentType: own['Content-Type'], content: Buffer.from('a=b') },
      form({ Origin: 'null', 'Sec-Fetch-Site': 'same-origin' }),
    ],
    [foreign('null', 'cross-site'), form({ Origin: 'null', 'Sec-Fetch-Site': 'cross-site' })],
    [foreign('null', 'same-site'), form({ Origin: 'null', 'Sec-Fetch-Site': 'same-site' })],
    [foreign('null', 'none'), form({ Origin: 'null', 'Sec-Fetch-Site': 'none' })],
    [foreign('null'), form({ Origin: 'null', 'Sec-Fetch-Site': '<b>' })],
    [foreign('null'), form({ Origin: '<b>' })],
    ['frame', form({ 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'iframe' })],
    ['type', form({ 'Content-Type': 'application/json' })],
    ['type', form({ 'Content-Type': `text/plain; x=${'y'.repeat(300)}` })],
    ['address', form({}), '1K', undefined],
    ['too-large', form({}, 'x'.repeat(1025))],
    ['too-large', form({ 'Content-Length': '3' }, 'x'.repeat(1025))],
    ['spent', form({}, `__authproxy_form=${'x'.repeat(27)}`)],
  ] as ReadonlyArray<readonly [unknown, ReturnType<typeof form>, string?, 'known'?]>) {
    const by = expected === 'address' ? undefined : sender
    t.same(await read(request, config(size), by), expected)
  }
})

t.test('forms that are read at once have so much room, users more than strangers', async t => {
  const read = formReader(new ManualClock(0))
  const half = 8 * 1024 * 1024
  let finish = () => {}
  const open = new Promise<void>(resolve => {
    finish = resolve
  })
  async function* slow() {
    yield Buffer.alloc(half)
    await open
  }
  const start = (sender: 'known' | 'unknown') =>
    read({ ...form({ 'Content-Length': String(half) }), content: slow() }, config('8M'), sender)
  const strangers = [start('unknown'), start('unknown')]
  t.equal(await start('unknown'), 'busy')
  const user = start('known')
  finish()
  for (const kept of await Promise.all([...strangers, user])) t.type(kept, 'object')
  t.type(await start('unknown'), 'object', 'and have it again when they have been read')
})
