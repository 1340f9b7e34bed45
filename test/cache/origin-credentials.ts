/**
 * Credentials that the proxy itself has for an archive: what they open is for its clients, and they go nowhere else.
 */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { configCheck } from '../../lib/cache/config/loading/load-config.ts'
import { asked, changingArchives } from '../fixtures/archive/changing-archive.ts'
import { hexOf } from '../fixtures/archive/tiny-archive.ts'
import { TestCache } from '../fixtures/cache/cache.ts'
import { makeAuthority } from '../fixtures/certificates/certificate.ts'
import type { RawResponse } from '../fixtures/http/raw-client.ts'
import { type Answer, reply, ScriptedOrigin } from '../fixtures/http/scripted-origin.ts'
import { tunnelTo } from '../fixtures/http/tunnel-to.ts'

const password = 's3cret-pa55'
const basic = Buffer.from(`bearer:${password}`).toString('base64')
const deb = '/paid/pool/main/h/hello_1_all.deb'
const other = '/paid/pool/main/o/other_1_all.deb'
const outside = { localAddress: '127.0.0.2' }

/** What subscribers get, and all others a page that repeats what they sent. */
const paid = (answer: Answer) => {
  const sent = answer.request.fields.get('Authorization')
  return sent === `Basic ${basic}`
    ? reply({ content: 'for subscribers', fields: { ETag: '"1"' } })(answer)
    : reply({ status: 401, content: `no: ${sent}`, fields: { 'WWW-Authenticate': 'Basic' } })(
        answer,
      )
}

function fileOf(t: Test, text: string, mode = 0o600): string {
  const path = join(t.testdir({ 'auth.conf': '' }), 'auth.conf')
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

interface Paid {
  readonly origin: ScriptedOrigin
  readonly elsewhere: ScriptedOrigin
  readonly cache: TestCache
  /** A request of a client that is not among those of the archive. */
  readonly fromOutside: (
    method: 'GET' | 'HEAD',
    url: string,
    fields?: Readonly<Record<string, string>>,
  ) => Promise<RawResponse>
}

/** A cache with credentials for an archive at /paid, and another origin. */
async function subscriber(t: Test, settings: object = {}, archive: object = {}): Promise<Paid> {
  const [origin, elsewhere] = [await ScriptedOrigin.listen(t), await ScriptedOrigin.listen(t)]
  const credentials = fileOf(
    t,
    `# comment\nmachine http://127.0.0.1:${origin.port}/paid login bearer password ${password}\n`,
  )
  const cache = await TestCache.start(t, {
    origins: [origin, elsewhere],
    settings: {
      archives: [
        { origins: [origin.url('/paid')], clients: ['127.0.0.1/32'], credentials, ...archive },
      ],
      log: { level: 'debug' },
      ...settings,
    },
  })
  origin.at(deb, paid).at(other, paid)
  return {
    ...{ origin, elsewhere, cache },
    async fromOutside(method, url, fields = {}) {
      const client = await cache.client(outside)
      const host = url.startsWith('/') ? `127.0.0.1:${cache.port}` : new URL(url).host
      await client.request(method, url, { Host: host, ...fields })
      return client.response({ to: method })
    },
  }
}

/** Whether a request to this origin had the credentials. */
const hadThem = (origin: ScriptedOrigin): boolean =>
  origin.requests.some(({ fields }) => [...fields].join().includes(basic))

t.test('what they open is stored and given to the clients of the archive', async t => {
  const { origin, cache } = await subscriber(t)
  t.equal((await cache.warm(origin.url(deb))).text, 'for subscribers')
  const again = await cache.get(origin.url(deb))
  t.equal(again.fields.get('X-Cache'), 'HIT')
  t.equal(origin.seen(deb).length, 1)
  const text = (await cache.get(`/_cachesvc/explain?url=${encodeURIComponent(origin.url(deb))}`))
    .text
  t.match(text, /archives\[0\]\.clients/)
  t.match(text, /archives\[0\]\.credentials/)
  const forbidding = await cache.get(origin.url(other), { 'Cache-Control': 'no-store' })
  t.equal(forbidding.text, 'for subscribers', 'a client that forbids to store gets it all the same')
  await cache.restart()
  t.equal((await cache.get(origin.url(deb))).fields.get('X-Cache'), 'HIT')
})

t.test('the sentence for a 401 says whose credentials failed', async t => {
  const { origin, cache } = await subscriber(t)
  for (const status of [401, 403]) {
    origin.at(
      deb,
      reply({ status, content: `you sent ${basic}`, fields: { 'WWW-Authenticate': basic } }),
    )
    const refused = await cache.get(origin.url(deb))
    t.equal(refused.status, 403)
    t.match(refused.text, /refuses the credentials of this proxy.*archives\[0\]\.credentials/)
    t.notOk(refused.fields.has('WWW-Authenticate'))
    t.notMatch(JSON.stringify([...refused.fields]) + refused.text, basic)
  }
  t.ok(
    cache.log.lines.some(
      ({ level, facts }) => level === 'warn' && facts?.['setting'] === 'archives[0].credentials',
    ),
  )
  const own = await cache.get(origin.url(deb), { Authorization: 'Basic eDp5' })
  t.equal(own.status, 403)
  origin.at(deb, paid)
  const wrong = await cache.get(origin.url(deb), { Authorization: 'Basic eDp5' })
  t.equal(wrong.status, 401, 'the 401 for credentials of the client is the client’s')
  t.match(wrong.text, 'Basic eDp5')
})

t.test('twelve ways to make the proxy give them away', async t => {
  await t.test('1, 2: a redirect to another host, and back', async t => {
    const { origin, elsewhere, cache } = await subscriber(t)
    origin.at(deb, reply({ status: 302, fields: { Location: elsewhere.url('/x') } }))
    elsewhere.at('/x', reply({ content: 'from elsewhere' }))
    t.equal((await cache.warm(origin.url(deb))).text, 'from elsewhere')
    t.notOk(hadThem(elsewhere))
    origin.at(other, answer =>
      answer.request.target.includes('again')
        ? paid(answer)
        : reply({ status: 302, fields: { Location: elsewhere.url('/back') } })(answer),
    )
    origin.at(`${other}?again`, paid)
    elsewhere.at(
      '/back',
      reply({ status: 302, fields: { Location: origin.url(`${other}?again`) } }),
    )
    t.not((await cache.get(origin.url(other))).status, 200, 'a chain that left gets them no more')
    t.equal(origin.requests.at(-1)?.fields.get('Authorization'), undefined)
  })

  await t.test('3: a redirect on the same host, out of the archive', async t => {
    const { origin, cache } = await subscriber(t)
    origin.at(deb, reply({ status: 302, fields: { Location: '/logs/x' } }))
    origin.at('/logs/x', paid)
    t.not((await cache.get(origin.url(deb))).status, 200)
    t.equal(origin.seen('/logs/x')[0]?.fields.get('Authorization'), undefined)
  })

  await t.test('4: a redirect into the archive, from elsewhere', async t => {
    const { origin, elsewhere, cache, fromOutside } = await subscriber(t)
    elsewhere.at('/x', reply({ status: 302, fields: { Location: origin.url(deb) } }))
    t.not((await fromOutside('GET', elsewhere.url('/x'))).status, 200)
    t.not((await cache.get(elsewhere.url('/x'))).status, 200)
    t.notOk(hadThem(origin))
  })

  await t.test('5: a parent proxy that could read them', async t => {
    const parent = await ScriptedOrigin.listen(t)
    parent.at('*', reply({ content: 'by the parent' }))
    const { origin, cache } = await subscriber(t, {
      parent_proxy: `http://127.0.0.1:${parent.port}`,
    })
    const answer = await cache.get(origin.url(deb))
    t.equal(answer.status, 503)
    t.match(answer.text, /does not send its credentials/)
    t.equal(parent.requests.length, 0)
    t.equal((await cache.get(origin.url('/open/x'))).text, 'by the parent', 'others go that way')
    const { text } = await cache.get('/_cachesvc/metrics')
    t.notMatch(
      text,
      /cachesvc_parent_requests_total.*failed.* [1-9]/,
      'and the parent has not failed',
    )
  })

  await t.test('6: https by way of a parent proxy, and a redirect from there to http', async t => {
    const authority = makeAuthority()
    const tls = authority.issue({ names: ['archive.example.org'] })
    const secure = await ScriptedOrigin.listen(t, { tls })
    const plain = await ScriptedOrigin.listen(t)
    const parent = await ScriptedOrigin.listen(t)
    parent.at('*', answer =>
      answer.request.method === 'CONNECT' ? tunnelTo(secure.port)(answer) : plainly(answer),
    )
    const plainly = reply({ content: 'plain' })
    const dir = t.testdir({ 'ca.pem': authority.cert, 'auth.conf': '' })
    const credentials = join(dir, 'auth.conf')
    writeFileSync(credentials, `machine archive.example.org login bearer password ${password}`)
    chmodSync(credentials, 0o600)
    const cache = await TestCache.start(t, {
      origins: [plain],
      settings: {
        domains: ['archive.example.org'],
        https: { origin_ca: [join(dir, 'ca.pem')] },
        parent_proxy: `http://127.0.0.1:${parent.port}`,
        archives: [
          { origins: ['archive.example.org/paid'], clients: ['127.0.0.1/32'], credentials },
        ],
      },
    })
    secure.at(deb, paid)
    const url = `http://HTTPS///archive.example.org${deb}`
    t.equal((await cache.warm(url)).text, 'for subscribers')
    t.notOk(hadThem(parent), 'the parent has seen a CONNECT alone')
    const down = `archive.example.org${other}`
    secure.at(other, reply({ status: 302, fields: { Location: `http://${down}` } }))
    t.not((await cache.get(`http://HTTPS///${down}`)).status, 200)
    t.equal((await cache.get(`http://${down}`)).text, 'plain')
    t.notOk(hadThem(parent), 'a line without http:// is for https alone')
  })

  await t.test('7: the log, the store, the pages, the metrics, the figures', async t => {
    const { origin, cache } = await subscriber(t)
    await cache.warm(origin.url(deb))
    origin.at(other, answer => answer.reset())
    await cache.get(origin.url(other))
    origin.at(other, reply({ content: `echo ${basic}`, cut: { at: 3, by: 'reset' } }))
    await cache.get(origin.url(other)).catch(() => undefined)
    const pages = ['', 'cache', 'stats', 'setup', 'setup.sh', 'metrics', 'api/stats', 'healthz']
    const explained = `explain?url=${encodeURIComponent(origin.url(deb))}`
    for (const page of [...pages, explained]) {
      const { text, fields } = await cache.get(`/_cachesvc/${page}`)
      for (const secret of [password, basic, 'bearer']) {
        t.notMatch(JSON.stringify([...fields]) + text, secret, page)
      }
    }
    const status = JSON.stringify(await cache.command({ do: 'status', json: true }))
    for (const secret of [password, basic]) {
      t.notMatch(status, secret)
      t.notOk(await cache.betrays(secret))
    }
  })

  await t.test('8: a client outside, with every kind of request', async t => {
    const { origin, cache, fromOutside } = await subscriber(t, { suites: { snapshot_days: 9 } })
    await cache.warm(origin.url(deb))
    const host = `127.0.0.1:${origin.port}`
    const today = new Date().toISOString().slice(0, 10)
    const targets = [
      origin.url(deb),
      origin.url(`/paid//pool/main/h/hello_1_all.deb`),
      origin.url(`/%70aid/pool/main/h/hello_1_all.deb`),
      origin.url(`/x/..${deb}`),
      `/${host}${deb}`,
      `/_cachesvc/snapshot/${today}/${host}${deb}`,
      `/_cachesvc/snapshot/${today.replaceAll('-', '')}T000000Z//${host}/${deb}`,
      origin.url(`/paid/dists/s/by-hash/SHA256/${hexOf('sha256', 'for subscribers')}`),
    ]
    for (const url of targets) {
      for (const [method, fields] of [
        ['GET', {}],
        ['HEAD', {}],
        ['GET', { Range: 'bytes=0-3' }],
        ['GET', { 'If-None-Match': '"1"' }],
        ['GET', { 'Cache-Control': 'only-if-cached' }],
        ['GET', { Authorization: 'Basic eDp5' }],
        ['GET', { 'X-Forwarded-For': '127.0.0.1', Forwarded: 'for=127.0.0.1' }],
      ] as const) {
        const answer = await fromOutside(method, url, fields)
        t.equal(answer.status, 403, `${method} ${url} ${JSON.stringify(fields)}`)
        if (method === 'GET') t.match(answer.text, /archives\[0\]\.clients/)
      }
    }
    t.equal(origin.requests.length, 1, 'and the origin is not asked')
  })

  await t.test('9: an own Authorization of a client of the archive', async t => {
    const { origin, cache } = await subscriber(t)
    await cache.warm(origin.url(deb))
    const own = await cache.get(origin.url(deb), { Authorization: 'Basic eDp5' })
    t.equal(own.status, 401)
    const sent = origin.requests.at(-1)?.fields
    t.strictSame([sent?.all('Authorization')], [['Basic eDp5']], 'it goes in place of ours')
  })

  await t.test('10: another origin of the archive, without a line, takes over', async t => {
    const { origin, elsewhere, cache } = await subscriber(t)
    await cache.reload({
      ...{ freshness: { floor: '0s' } },
      archives: [
        {
          origins: [origin.url('/paid'), elsewhere.url('/mirror')],
          clients: ['127.0.0.1/32'],
          credentials: fileOf(
            t,
            `machine http://127.0.0.1:${origin.port}/paid login bearer password ${password}`,
          ),
        },
      ],
    })
    origin.at(deb, reply({ status: 503 }))
    elsewhere.at('/mirror/pool/main/h/hello_1_all.deb', reply({ content: 'of the mirror' }))
    t.equal((await cache.warm(origin.url(deb))).text, 'of the mirror')
    t.ok(hadThem(origin))
    t.notOk(hadThem(elsewhere))
  })

  await t.test('11: an open archive that shares the origin', async t => {
    const { origin, elsewhere, cache, fromOutside } = await subscriber(t)
    const credentials = fileOf(
      t,
      `machine http://127.0.0.1:${origin.port} login bearer password ${password}`,
    )
    await cache.reload({
      archives: [
        { origins: [elsewhere.url('/open'), origin.url('/paid/pool')] },
        { origins: [origin.url('/paid')], clients: ['127.0.0.1/32'], credentials },
      ],
    })
    elsewhere.at('/open/main/h/hello_1_all.deb', reply({ status: 404 }))
    const answer = await fromOutside('GET', elsewhere.url('/open/main/h/hello_1_all.deb'))
    t.not(answer.status, 200)
    t.not((await cache.get(origin.url(deb))).status, 200)
    t.notOk(hadThem(origin), 'is asked for the files of the other archive without them')
  })

  await t.test('12: an archive of the attacker that names the digest', async t => {
    const file = fileOf(t, `machine http://127.0.0.1:1/paid login bearer password ${password}`)
    const about = { clients: ['127.0.0.1/32'], credentials: file }
    const of = await changingArchives(t, {
      archives: { paid: about },
      settings: { verification: { interval: '0s' } },
    })
    const [inside, attacker] = [of('paid'), of('attacker')]
    const { cache, origin } = inside
    const stolen = { 'pool/main/s/stolen_1_all.deb': 'paid content' }
    const ours = await inside.ofDay(1, { packages: stolen })
    inside.serve(ours)
    await inside.update()
    await cache.warm(origin.url('/paid/pool/main/s/stolen_1_all.deb'))
    attacker.serve(await attacker.ofDay(1, { packages: stolen }), path => !path.includes('stolen'))
    const take = async () => {
      await attacker.update()
      await attacker.update()
      const client = await cache.client(outside)
      const url = origin.url('/attacker/pool/main/s/stolen_1_all.deb')
      await client.request('GET', url, { Host: new URL(url).host, ...asked })
      return client.response()
    }
    const taken = await take()
    t.equal(taken.status, 404, taken.text)
    await cache.restart()
    t.equal((await take()).status, 404, 'nor after a restart')
    await cache.command({ do: 'remove', of: origin.url('/paid/pool/main/s/stolen_1_all.deb') })
    t.equal((await take()).status, 404, 'nor when it is on its way out')
    attacker.serve(await attacker.ofDay(1, { packages: stolen }))
    t.equal((await take()).text, 'paid content', 'only from the attacker’s own origin')
  })
})

t.test('an archive of the attacker whose Release file names a paid file as its index', async t => {
  const about = { clients: ['127.0.0.1/32'] }
  const of = await changingArchives(t, {
    archives: { paid: about },
    settings: { verification: { interval: '0s' } },
  })
  const [inside, attacker] = [of('paid'), of('attacker')]
  const { cache, origin } = inside
  const paidText = 'paid content'
  const path = 'pool/main/s/stolen_1_all.deb'
  inside.serve(await inside.ofDay(1, { packages: { [path]: paidText } }))
  await inside.update()
  await cache.warm(origin.url(`/paid/${path}`))
  const first = await attacker.ofDay(1)
  attacker.serve(first)
  await attacker.update()
  await attacker.update()
  const next = await attacker.ofDay(2)
  const index = next.get(attacker.index) ?? Buffer.alloc(0)
  const text = `${next.get(attacker.release)}`
    .replace(hexOf('sha256', index), hexOf('sha256', paidText))
    .replaceAll(` ${index.length} `, ` ${paidText.length} `)
  t.match(text, ` ${hexOf('sha256', paidText)} ${paidText.length} `)
  next.set(attacker.release, Buffer.from(text))
  attacker.serve(next)
  for (let i = 0; i < 3; i += 1) await attacker.update()
  const named = attacker.hashed(Buffer.from(paidText))
  for (const wanted of [named, attacker.index]) {
    const client = await cache.client(outside)
    const url = origin.url(`/${wanted}`)
    await client.request('GET', url, { Host: new URL(url).host, ...asked })
    const { status, text: got } = await client.response()
    t.not(got, paidText, `${status} ${wanted}`)
  }
})

t.test('an archive for some clients whose origin knows this proxy by its address', async t => {
  const without = { credentials: undefined }
  const { origin, elsewhere, cache, fromOutside } = await subscriber(t, {}, without)
  const known = '/paid/pool/main/k/known_1_all.deb'
  const open = '/open/pool/main/k/known_1_all.deb'
  origin.at(known, reply({ content: 'for subscribers' }))
  origin.at(open, reply({ status: 302, fields: { Location: known } }))
  elsewhere.at('/x.deb', reply({ status: 302, fields: { Location: origin.url(known) } }))
  elsewhere.at('/y.deb', reply({ status: 301, fields: { Location: elsewhere.url('/x.deb') } }))
  const spelt = [
    known.replace('/paid', '/%70aid'),
    `/${known}`,
    `/x/%2e%2e${known}`,
    `${known.replace('/paid', '/%70aid')}?%01`,
  ].map((path, i) => {
    elsewhere.at(`/spelt${i}`, reply({ status: 302, fields: { Location: origin.url(path) } }))
    return elsewhere.url(`/spelt${i}`)
  })
  const chain = [elsewhere.url('/x.deb'), elsewhere.url('/y.deb'), origin.url(open)]
  for (const url of [...chain, ...spelt]) {
    for (const method of ['GET', 'HEAD'] as const) {
      const answer = await fromOutside(method, url)
      t.equal(answer.status, 403, `${method} ${url}`)
      if (method === 'GET') t.match(answer.text, /archives\[0\]\.clients|no place of an archive/)
    }
    t.equal((await cache.get(url)).status, 403, 'it would be stored under a name that is open')
  }
  t.strictSame(
    origin.requests.map(({ target }) => target).filter(target => target !== open),
    [],
  )
  t.equal((await cache.get(origin.url(known))).text, 'for subscribers')
})

t.test('a file that cannot be used stops the start, and a reload changes nothing', async t => {
  const { origin, cache } = await subscriber(t)
  const archive = (credentials: string) => ({
    archives: [{ origins: [origin.url('/paid')], clients: ['127.0.0.1/32'], credentials }],
  })
  const wrong = [
    ['', 0o600, /has no line/],
    [`machine http://127.0.0.1 login bearer password ${password}`, 0o644, /every user/],
    [`machine h login ${password}`, 0o600, /no password/],
    [`default login x password ${password}`, 0o600, /something else/],
    [`login x password ${password}`, 0o600, /no machine/],
    [`machine ftp://h login x password ${password}`, 0o600, /not of http or https/],
    [`machine h login a:b password ${password}`, 0o600, /colon/],
    [`machine h login x password ${password} macdef init`, 0o600, /something else/],
  ] as const
  for (const [text, mode, why] of wrong) {
    const problems = await cache.reload(archive(fileOf(t, text, mode)))
    t.match(problems, [why])
    t.notMatch(problems.join('\n'), password)
    t.equal((await cache.get(origin.url(deb))).text, 'for subscribers', 'the ones of before')
  }
  t.match(await cache.reload(archive('/nowhere/auth.conf')), [/cannot be read/])
  t.match(await cache.reload(archive('credential:nothing')), [/cannot be read/])
})

t.test('settings that do not go together', async t => {
  const environment = {
    environment: {},
    root: false,
    home: '/home/ann',
    systemCacheWritable: false,
  }
  const check = configCheck({}, environment)
  const origins = ['archive.example.org/paid']
  const given = { origins, credentials: '/etc/cachesvc/auth.conf', clients: ['192.0.2.0/24'] }
  t.equal(check({ archives: [given] }).ok, true)
  for (const [settings, path] of [
    [{ archives: [{ ...given, clients: [] }] }, 'credentials'],
    [{ archives: [{ ...given, redirects: 'pass' }] }, 'redirects'],
    [{ archives: [given], redirects: 'pass' }, 'redirects'],
    [{ archives: [given], passthrough_domains: ['archive.example.org'] }, 'origins'],
  ] as const) {
    const checked = check(settings)
    t.match(checked, { ok: false })
    t.match(JSON.stringify(checked), path)
  }
})
