import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isOperationsPath } from '../../../lib/cache/request/own-paths.ts'
import type { Response } from '../../../lib/http/message/message.ts'
import { packageRoot } from '../../../lib/package.ts'
import {
  ask,
  fullSources,
  hostileSources,
  plainConfig,
  sources,
  textOf,
} from '../../fixtures/cache/operations.ts'

const paths = [
  '/',
  '/robots.txt',
  '/favicon.ico',
  '/.well-known/security.txt',
  '/_cachesvc',
  '/_cachesvc/',
  '/_cachesvc/cache',
  '/_cachesvc/stats',
  '/_cachesvc/setup',
  '/_cachesvc/explain',
  '/_cachesvc/configuration',
  '/_cachesvc/api/stats',
  '/_cachesvc/cachesvc.crt',
  '/_cachesvc/revocation.crl',
  '/_cachesvc/healthz',
  '/_cachesvc/metrics',
  '/_cachesvc/style.css',
  '/_cachesvc/nothing/here',
]

function contentOf(response: Response): Buffer {
  return response.content.kind === 'bytes' ? response.content.bytes : Buffer.alloc(0)
}

t.test('HEAD is GET without its content', async t => {
  for (const path of paths) {
    for (const given of [fullSources(), sources()]) {
      const get = await ask(given, path)
      const head = await ask(given, path, { method: 'HEAD' })
      t.equal(head.status, get.status, path)
      t.equal(head.reason, get.reason)
      t.strictSame(head.fields.flat, get.fields.flat)
      t.equal(head.content.kind, 'none')
      t.equal(head.announcedLength, contentOf(get).length)
      t.equal(get.announcedLength, undefined)
    }
  }
})

t.test('other methods are refused on every route, known or not', async t => {
  for (const path of paths) {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'get', 'PROPFIND']) {
      const response = await ask(fullSources(), path, { method })
      t.equal(response.status, 405, `${method} ${path}`)
      t.equal(response.fields.get('Allow'), 'GET, HEAD')
      t.match(textOf(response), /GET, HEAD/)
    }
  }
})

t.test(
  'OPTIONS of what load balancers check is answered with the health of the service',
  async t => {
    for (const path of ['/', '*', '/_cachesvc/healthz']) {
      const well = await ask(fullSources(), path, { method: 'OPTIONS' })
      t.equal(well.status, 200, path)
      t.equal(well.fields.get('Allow'), 'GET, HEAD, OPTIONS')
      t.equal(well.content.kind, 'none')
      const health = async () => ({ writable: false, because: 'the disk is full' }) as const
      const ill = await ask({ ...fullSources(), health }, path, { method: 'OPTIONS' })
      t.equal(ill.status, 503, path)
    }
    const other = await ask(fullSources(), '/_cachesvc/stats', { method: 'OPTIONS' })
    t.equal(other.status, 405)
  },
)

t.test('every answer carries the security fields once, whatever it is', async t => {
  for (const path of paths) {
    for (const method of ['GET', 'HEAD', 'POST']) {
      const { fields } = await ask(hostileSources(), path, { method })
      t.strictSame(fields.all('Cache-Control'), ['no-store'])
      t.strictSame(fields.all('X-Content-Type-Options'), ['nosniff'])
      t.strictSame(fields.all('X-Frame-Options'), ['DENY'])
      t.strictSame(fields.all('Referrer-Policy'), ['no-referrer'])
      t.match(fields.all('Content-Security-Policy'), [/^default-src 'none'; /])
      t.notMatch(fields.get('Content-Security-Policy'), /unsafe|\*|script-src '(?!sha256-)/)
      t.equal(fields.all('Content-Type').length, 1)
    }
  }
})

t.test('no answer has fields the server writes itself', async t => {
  for (const path of paths) {
    const { fields } = await ask(fullSources(), path)
    for (const name of ['Content-Length', 'Transfer-Encoding', 'Connection', 'Date']) {
      t.notOk(fields.has(name), `${path} ${name}`)
    }
  }
})

t.test('what is not known is a page that says so', async t => {
  for (const path of [
    '/_cachesvc/nothing',
    '/_cachesvc/Stats',
    '/_CACHESVC/',
    '/_cachesvc//',
    '/_cachesvc/../etc/passwd',
    '/_cachesvc/st%61ts',
    '/_cachesvc/style.css/../stats',
    '/_cachesvc/<script>alert(1)</script>',
    '/_cachesvc/__proto__',
    '/_cachesvc/page-start.mustache',
    '/other',
    '',
  ]) {
    const response = await ask(fullSources(), path)
    t.equal(response.status, 404, path)
    t.equal(response.fields.get('Content-Type'), 'text/html; charset=utf-8')
    t.match(textOf(response), /<h1>Page not found<\/h1>/)
    t.notMatch(textOf(response), /passwd|alert/, 'nothing of the path comes back')
  }
})

t.test('a slash too many is shown the way', async t => {
  for (const path of ['/_cachesvc/stats', '/_cachesvc/api/stats', '/_cachesvc/explain']) {
    const response = await ask(fullSources(), `${path}/`)
    t.equal(response.status, 307)
    t.equal(response.fields.get('Location'), path)
  }
  t.equal((await ask(sources(), '/_cachesvc/lost/')).status, 404, 'only to what is there')
})

t.test('queries change nothing', async t => {
  for (const path of paths.filter(path => path !== '/_cachesvc/explain')) {
    const plain = await ask(fullSources(), path)
    const asked = await ask(fullSources(), path, { query: 'a=1&url=x&format=html' })
    t.strictSame(asked.fields.flat, plain.fields.flat)
    t.strictSame(contentOf(asked), contentOf(plain), path)
  }
})

t.test('readiness says 200, or 503 and why', async t => {
  const ready = await ask(sources(), '/_cachesvc/healthz')
  t.equal(ready.status, 200)
  t.equal(textOf(ready), 'ok\n')
  const full = sources({ health: () => ({ writable: false, because: 'the disk is full' }) })
  const notReady = await ask(full, '/_cachesvc/healthz')
  t.equal(notReady.status, 503)
  t.equal(textOf(notReady), 'not ready: the disk is full\n')
  t.equal(notReady.fields.get('Content-Type'), 'text/plain; charset=utf-8')
})

t.test('metrics are passed on as they are', async t => {
  const response = await ask(
    sources({ metrics: async () => '# HELP x "quoted" <x>\nx 1\n' }),
    '/_cachesvc/metrics',
  )
  t.equal(textOf(response), '# HELP x "quoted" <x>\nx 1\n')
  t.equal(response.fields.get('Content-Type'), 'text/plain; version=0.0.4; charset=utf-8')
})

t.test('the style sheet is the file', async t => {
  const response = await ask(sources(), '/_cachesvc/style.css')
  t.equal(response.fields.get('Content-Type'), 'text/css; charset=utf-8')
  const file = readFileSync(join(packageRoot(), 'templates/operations/style.css'))
  t.strictSame(contentOf(response), file)
  t.notMatch(file.toString(), /url\(|@import|http/, 'it loads nothing')
})

t.test('the icon is the file, an ICO with the sizes the pages name', async t => {
  const response = await ask(sources(), '/favicon.ico')
  const file = readFileSync(join(packageRoot(), 'templates/operations/favicon.ico'))
  t.strictSame(contentOf(response), file)
  t.strictSame([file.readUInt16LE(0), file.readUInt16LE(2), file.readUInt16LE(4)], [0, 1, 3])
  const edges = [0, 1, 2].map(i => file.readUInt8(6 + 16 * i))
  t.match(textOf(await ask(sources(), '/_cachesvc/')), edges.map(one => `${one}x${one}`).join(' '))
})

t.test('which paths are the operations interface’s', async t => {
  for (const path of paths) t.ok(isOperationsPath(path), path)
  for (const path of ['/_cachesvcs', '/_CACHESVC', '/robots.txt/', '//', '/debian/', '']) {
    t.notOk(isOperationsPath(path), path)
  }
})

t.test('explain has a form, and shows what was asked as text', async t => {
  const form = textOf(await ask(fullSources(), '/_cachesvc/explain'))
  t.match(form, /<form [^>]*method="get"/)
  t.notMatch(form, /<h2 id="answer">/)
  const url = 'http://a.example/x%2b1?a=b&c="><script>'
  const query = new URLSearchParams({ url }).toString()
  const page = textOf(await ask(fullSources(), '/_cachesvc/explain', { query }))
  t.match(page, /<dt>Rule<\/dt><dd class="words">domains: archive\.example\.org</)
  t.match(page, 'value="http://a.example/x%2b1?a=b&#38;c=&#34;&#62;&#60;script&#62;"')
  t.notMatch(page, '<script>')
})

t.test('index.clients keeps others from the pages, and leaves what clients need', async t => {
  const of = (clients: readonly string[]) =>
    fullSources({ config: { ...plainConfig, index: { ...plainConfig.index, clients } } })
  const closed = ['', 'cache', 'stats', 'explain', 'api/stats', 'metrics']
  const open = ['setup', 'setup.sh', 'cachesvc.crt', 'revocation.crl', 'healthz', 'style.css']
  const status = async (clients: readonly string[], path: string) =>
    (await ask(of(clients), `/_cachesvc/${path}`)).status
  for (const path of [...closed, ...open]) t.equal(await status([], path), 200, path)
  for (const path of closed) t.equal(await status(['198.51.100.0/24'], path), 403, path)
  for (const path of closed) t.equal(await status(['192.0.2.64/26'], path), 200, path)
  for (const path of open) t.equal(await status(['198.51.100.0/24'], path), 200, path)
  t.equal((await ask(of(['198.51.100.0/24']), '/')).status, 406, 'proxies are still detected')
})

t.test('a client learns whether it may use the proxy', async t => {
  t.match(await ask(sources(), '/_cachesvc/allowed'), { status: 200 })
  const refused = await ask(sources({ admits: () => false }), '/_cachesvc/allowed')
  t.equal(refused.status, 403)
  t.match(textOf(refused), '192.0.2.77 is in no network under `clients`.')
})

t.test('explain leads with the verdict, and has examples until it is asked', async t => {
  const form = textOf(await ask(fullSources(), '/_cachesvc/explain'))
  t.match(form, 'href="/_cachesvc/explain?url=http%3A%2F%2Farchive.example.org%2Fdebian%2Fdists%2F')
  const query = 'url=http%3A%2F%2Fa.example%2F'
  const page = textOf(await ask(fullSources(), '/_cachesvc/explain', { query }))
  t.match(page, /<h2 id="answer">Answer<\/h2>\s*<p class="verdict"><span>A request now<\/span>/)
  t.notMatch(page, 'id="examples"')
  const refusing = fullSources({
    explain: () => [{ question: 'A request now', answer: 'is refused.', fate: 'refused' }],
  })
  t.match(
    textOf(await ask(refusing, '/_cachesvc/explain', { query })),
    /<p class="verdict refused"><strong class="fate">.*✕.*<strong>is refused\.<\/strong>/,
    'a refusal does not look like a hit',
  )
})

t.test('explain bounds what it is given', async t => {
  let asked = 0
  const given = fullSources({
    explain: () => {
      asked += 1
      return []
    },
  })
  const page = async (url: string) => {
    const query = new URLSearchParams({ url }).toString()
    return textOf(await ask(given, '/_cachesvc/explain', { query }))
  }
  t.match(await page('x'.repeat(2049)), /Too long/)
  t.equal(asked, 0)
  t.match(await page('x'.repeat(2048)), /Nothing is known of this URL/)
  t.equal(asked, 1)
  await ask(given, '/_cachesvc/explain', { query: 'url=%ff%zz&&=' })
  t.equal(asked, 2, 'a malformed query is only a strange URL')
})

t.test('a source that fails fails its own page and no other', async t => {
  const broken = fullSources({
    usage: () => {
      throw new Error('disk')
    },
  })
  await t.rejects(ask(broken, '/_cachesvc/cache'), { message: 'disk' })
  t.equal((await ask(broken, '/_cachesvc/')).status, 200)
  t.equal((await ask(broken, '/_cachesvc/stats')).status, 200)
})
