/** Who shares connections to origins, and how many there are. */
import t from 'tap'
import { OriginFailure } from '../../lib/http/origin-errors.ts'
import { Gate } from '../fixtures/gate.ts'
import { asking, makeClient, textOf, until } from '../fixtures/origin-client.ts'
import { reply, ScriptedOrigin } from '../fixtures/scripted-origin.ts'

/** What a request is thrown for. */
function failureOf(request: Promise<unknown>): Promise<OriginFailure> {
  return request.then(
    () => Promise.reject(new Error('it did not fail')),
    error => (error instanceof OriginFailure ? error : Promise.reject(error)),
  )
}

t.test('what is passed to one client has connections of its own', async t => {
  const origin = await ScriptedOrigin.listen(t)
  const gate = new Gate()
  t.teardown(() => gate.open())
  origin.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client } = makeClient(t, { limits: { perOrigin: 1 } })
  await client.request(asking(origin.url('/slow'), { line: 'passed' }))
  t.equal((await client.request(asking(origin.url('/')))).status, 404)
})

t.test('all origins together have so many connections, free ones make room', async t => {
  const gate = new Gate()
  t.teardown(() => gate.open())
  const origins = await Promise.all([1, 2, 3].map(() => ScriptedOrigin.listen(t)))
  for (const one of origins) one.at('/slow', reply({ content: 'hello', pauses: [{ at: 2, gate }] }))
  const { client } = makeClient(t, { limits: { all: 2 } })
  const [a, b, c] = origins
  if (a === undefined || b === undefined || c === undefined) throw new Error('three origins')
  const slow = await client.request(asking(a.url('/slow')))
  await textOf((await client.request(asking(b.url('/')))).content)
  await until(() => client.counts().free === 1)
  await client.request(asking(c.url('/slow')))
  await until(() => client.counts().busy === 2)
  t.match(await failureOf(client.request(asking(b.url('/')))), { code: 'ORIGIN_QUEUE_FULL' })
  gate.open()
  await textOf(slow.content)
  await until(() => client.counts().free === 1)
  t.equal((await client.request(asking(b.url('/')))).status, 404)
})
