/**
 * What applications do, through an authenticated session: WebSocket, event stream, a gigabyte each way, a megabyte of fields.
 * SSO_TRAFFIC_BYTES is the size of the transfers, a gigabyte when not set.
 */
import { createHash } from 'node:crypto'
import type { ClientRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { pipeline } from 'node:stream/promises'
import type { BrowserContext } from 'playwright-core'
import t from 'tap'
import { flow } from '../../demo/application.ts'
import { noStage, type Stage, setStage } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'
import { talk } from '../fixtures/sso/websocket.ts'

t.setTimeout(300_000)
const size = Number(process.env['SSO_TRAFFIC_BYTES'] ?? 1_000_000_000)
/** How much more memory a transfer may take than a page. */
const MARGIN = 96 * 1024 * 1024

t.test('traffic of a session', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t)
  const page = await stage.signedIn(users.ada)
  const context = page.context()
  const cookie = await cookieLine(context, stage)
  const where = { host: stage.host, port: stage.edge.port, ca: stage.authority.cert }

  await t.test('everything on the page of the application works in the browser', async t => {
    for (const [name, id, hasText] of [
      ['socket', 'socket-says', 'echo: hello'],
      ['events', 'events-say', 'event 5 of 5'],
      ['upload', 'upload-says', '10000000 bytes'],
      ['fields', 'fields-say', '200 with JSON'],
    ] as const) {
      await page.click(`[data-try=${name}]`)
      await page.locator(`#${id}`, { hasText }).waitFor({ timeout: 10_000 })
      t.pass(name)
    }
  })

  await t.test('a WebSocket has the identity, and echoes', async t => {
    const fields = { Cookie: cookie, Origin: stage.base }
    const { status, heard } = await talk({
      ...where,
      target: '/socket',
      fields,
      say: ['one', 'two'],
    })
    t.equal(status, 101)
    t.match(heard[0], 'ada@example.test')
    t.notMatch(heard[0], '__authproxy_session')
    t.strictSame(heard.slice(1), ['one', 'two'])
  })

  await t.test('a WebSocket the application refuses is refused with its words', async t => {
    const fields = { Cookie: cookie, Origin: stage.base }
    const refused = await talk({ ...where, target: '/socket?refuse=403', fields, say: [] })
    t.equal(refused.status, 403)
    t.match(refused.content, 'does not want')
  })

  await t.test(
    'a WebSocket without a session, or from a page of another site, is refused by the gateway',
    async t => {
      const bare = await talk({
        ...where,
        target: '/socket',
        fields: { Origin: stage.base },
        say: [],
      })
      t.equal(bare.status, 401)
      t.notMatch(bare.head, /set-cookie/i)
      const fields = { Cookie: cookie, Origin: 'https://evil.test' }
      const foreign = await talk({ ...where, target: '/socket', fields, say: [] })
      t.equal(foreign.status, 403)
    },
  )

  await t.test('events come one by one', async t => {
    const started = performance.now()
    let first: number | undefined
    await receive(stage, cookie, '/events?count=3&every=400', block => {
      first ??= performance.now() - started
      t.ok(block.length < 200)
    })
    t.ok((first ?? 9999) < 900, `the first after ${first} ms`)
    t.ok(performance.now() - started > 1000)
  })

  await t.test('a mebibyte of fields reaches the application', async t => {
    // Less what browsers, the edge and the session add.
    const size = 1024 * 1024 - 10_000
    const answer = await stage.ask('/fields', {
      as: context,
      fields: { 'X-Large': 'x'.repeat(size) },
    })
    t.equal(answer.status, 200)
    t.ok(answer.text.length > size)
    t.match(answer.text.slice(0, 4000), 'ada@example.test', 'who it is stands first')
  })

  await t.test('a megabyte in many fields, and more than may be, is answered', async t => {
    const many = Object.fromEntries(
      Array.from({ length: 700 }, (_, i) => [`X-Field-${i}`, 'y'.repeat(1400)]),
    )
    const answer = await stage.ask('/fields', { as: context, fields: many })
    t.equal(answer.status, 200)
    t.match(answer.text, 'X-Field-699')
    const over = await stage
      .ask('/fields', { as: context, fields: { 'X-Large': 'x'.repeat(1_300_000) } })
      .then(
        ({ status }) => status,
        () => 431,
      )
    t.ok([400, 431].includes(over), String(over))
  })

  await t.test('a download of a gigabyte takes no memory', async t => {
    let bytes = 0
    const grown = await measured(stage, () =>
      receive(stage, cookie, `/download?bytes=${size}`, block => {
        bytes += block.length
      }),
    )
    t.equal(bytes, size)
    t.ok(grown < MARGIN, `${Math.round(grown / 1e6)} MB more`)
    t.comment(`download: ${Math.round(grown / 1e6)} MB more`)
  })

  await t.test('a slow reader does not make it take memory either', async t => {
    const grown = await measured(stage, async () => {
      const request = start(stage, cookie, `/download?bytes=${size}`)
      request.end()
      await new Promise<void>((resolve, reject) => {
        request.on('error', reject)
        request.on('response', response => {
          response.once('readable', () => setTimeout(() => resolve(), 3000))
        })
      })
      request.destroy()
    })
    t.ok(grown < MARGIN, `${Math.round(grown / 1e6)} MB more`)
  })

  await t.test('an upload of a gigabyte takes no memory and arrives whole', async t => {
    let told = ''
    const expected = createHash('sha256')
    await pipeline(flow(size), expected)
    const grown = await measured(stage, async () => {
      const request = start(stage, cookie, '/upload', { method: 'POST', length: size })
      const answered = new Promise<string>((resolve, reject) => {
        request.on('error', reject)
        request.on('response', async response => {
          let text = ''
          for await (const block of response) text += block
          resolve(text)
        })
      })
      await pipeline(flow(size), request)
      told = await answered
    })
    t.strictSame(JSON.parse(told), { bytes: size, sha256: expected.digest('hex') })
    t.ok(grown < MARGIN, `${Math.round(grown / 1e6)} MB more`)
    t.comment(`upload: ${Math.round(grown / 1e6)} MB more`)
  })
})

async function cookieLine(context: BrowserContext, stage: Stage): Promise<string> {
  const cookies = await context.cookies(stage.base)
  return cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
}

function start(
  stage: Stage,
  cookie: string,
  path: string,
  { method = 'GET', length }: { method?: string; length?: number } = {},
): ClientRequest {
  return httpsRequest({
    host: '127.0.0.1',
    port: stage.edge.port,
    servername: stage.host,
    ca: stage.authority.cert,
    method,
    path,
    agent: false,
    headers: {
      Host: stage.host,
      Cookie: cookie,
      ...(length !== undefined && { 'Content-Length': length }),
    },
  })
}

async function receive(
  stage: Stage,
  cookie: string,
  path: string,
  take: (block: Buffer) => void,
): Promise<void> {
  const request = start(stage, cookie, path)
  request.end()
  await new Promise<void>((resolve, reject) => {
    request.on('error', reject)
    request.on('response', response => {
      response.on('data', take)
      response.on('error', reject)
      response.on('end', () => resolve())
    })
  })
}

/** By how many bytes the gateway's memory grew at most while something ran. */
async function measured(stage: Stage, run: () => Promise<void>): Promise<number> {
  const before = stage.gateway.memory()
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, stage.gateway.memory())
  }, 50)
  try {
    await run()
  } finally {
    clearInterval(timer)
  }
  return most - before
}
