import t from 'tap'
import { Lifetime } from '../../lib/async/lifetime.ts'

const enough = new Error('enough')

t.test('the end comes once, and whoever asks later is told at once', t => {
  const lifetime = new Lifetime()
  const told: string[] = []
  lifetime.onceOver(reason => told.push(`first ${reason.message}`))
  lifetime.onceOver(reason => told.push(`second ${reason.message}`))
  t.notOk(lifetime.over)
  t.equal(lifetime.reason, undefined)
  lifetime.end(enough)
  lifetime.end(new Error('again'))
  lifetime.onceOver(reason => told.push(`late ${reason.message}`))
  t.strictSame(told, ['first enough', 'second enough', 'late enough'])
  t.ok(lifetime.over)
  t.equal(lifetime.reason, enough)
  t.end()
})

t.test('who has forgotten it is not told', t => {
  const lifetime = new Lifetime()
  const told: string[] = []
  const first = () => told.push('first')
  lifetime.onceOver(first)
  lifetime.onceOver(() => told.push('second'))
  lifetime.forget(first)
  lifetime.forget(() => told.push('never there'))
  lifetime.end(enough)
  lifetime.forget(first)
  t.strictSame(told, ['second'])
  t.end()
})

t.test('its signal fires with its reason, also when it is asked for late', t => {
  for (const early of [true, false]) {
    const lifetime = new Lifetime()
    if (early) t.notOk(lifetime.signal.aborted)
    lifetime.end(enough)
    t.ok(lifetime.signal.aborted)
    t.equal(lifetime.signal.reason, enough)
    t.equal(lifetime.signal, lifetime.signal)
  }
  t.end()
})

t.test('one that lasts until a signal fires', t => {
  const control = new AbortController()
  const lifetime = Lifetime.until(control.signal)
  t.notOk(lifetime.over)
  control.abort(enough)
  t.equal(lifetime.reason, enough)
  t.equal(Lifetime.until(control.signal).reason, enough)
  t.match(Lifetime.until(AbortSignal.abort('a text')).reason, { message: 'a text' })
  t.end()
})
