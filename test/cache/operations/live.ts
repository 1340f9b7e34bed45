import { createHash } from 'node:crypto'
import t from 'tap'
import { iterate } from '../../../lib/bytes/source.ts'
import { LiveEvents } from '../../../lib/cache/operations/live.ts'
import { operationsHandler } from '../../../lib/cache/operations/routes.ts'
import { ask, fullSources, noon, request, textOf } from '../../fixtures/cache/operations.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

function figuresOf(block: Buffer | undefined): Record<string, string> {
  const [, json = ''] = /^data: (.*)\n\n$/.exec(String(block)) ?? []
  return JSON.parse(json)
}

async function turn(): Promise<void> {
  await new Promise(resolve => setImmediate(resolve))
}

t.test('a page gets figures at once and every two seconds, all from one timer', async t => {
  const clock = new ManualClock(noon)
  let asked = 0
  const health = () => {
    asked += 1
    return { writable: false as const, because: String(asked) }
  }
  const live = new LiveEvents(fullSources({ clock, health }))
  const [first, second] = [iterate(live.open()), iterate(live.open())]
  t.match(figuresOf((await first.next()).value), { state: /^broken,\d/, uptime: '3 days 4 hours' })
  await second.next()
  asked = 0
  for (let i = 0; i < 31; i += 1) {
    clock.advance(2000)
    await turn()
  }
  t.equal(asked, 31, 'the sources are asked once for all pages')
  t.match(figuresOf((await first.next()).value)['state'], /^broken,31/, 'the latest figures')
  await Promise.all([first.return?.(), second.return?.()])
  clock.advance(10_000)
  await turn()
  t.equal(asked, 31, 'without a page there is no timer')
})

t.test('streams are bounded in number and time, and end with the service', async t => {
  const clock = new ManualClock(noon)
  const live = new LiveEvents(fullSources({ clock }))
  const handle = operationsHandler(fullSources({ clock }), live)
  const asked = () => handle(request('GET', '/_cachesvc/live'), '/_cachesvc/live')
  const answer = await asked()
  t.equal(answer.fields.get('Content-Type'), 'text/event-stream')
  const pages = Array.from({ length: 20 }, () => iterate(live.open()))
  t.equal((await asked()).status, 503)
  await pages.pop()?.return?.()
  t.equal((await asked()).status, 200)
  for (let i = 0; i < 300; i += 1) {
    clock.advance(2000)
    await turn()
  }
  t.equal((await pages[0]?.next())?.done, false, 'what was sent last')
  t.equal((await pages[0]?.next())?.done, true, 'ten minutes')
  const late = iterate(live.open())
  await late.next()
  const ending = late.next()
  live.close()
  t.equal((await ending).done, true)
  t.equal((await asked()).status, 503)
})

t.test(
  'the script of the overview is the one its policy names, and its figures are there',
  async t => {
    const answer = await ask(fullSources(), '/_cachesvc/')
    const html = textOf(answer)
    const [, script = ''] = /<script>(.*)<\/script>/s.exec(html) ?? []
    const hash = createHash('sha256').update(script).digest('base64')
    const policy = answer.fields.get('Content-Security-Policy')
    t.match(policy, `script-src 'sha256-${hash}'; connect-src 'self'`)
    const live = new LiveEvents(fullSources())
    const events = iterate(live.open())
    const figures = figuresOf((await events.next()).value)
    const places = [...html.matchAll(/data-live="(\w+)">([^<]+)</g)]
    t.equal(places.length, 10)
    for (const [, name = '', text = ''] of places) t.equal(figures[name], text, name)
    live.close()
  },
)
