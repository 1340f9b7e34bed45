/** The table of a request's life. */
import t from 'tap'
import {
  afterEvent,
  type RequestEvent,
  RequestLife,
  type RequestState,
} from '../../../lib/http/client/request-life.ts'

const events: readonly RequestEvent[] = [
  ...(['wait', 'dial', 'connected', 'sent', 'head'] as const),
  ...(['switched', 'left', 'ended', 'failed'] as const),
]

/** What each event makes of each state, in the order of `events`; a dot where it stays. */
const table: Readonly<Record<RequestState, string>> = {
  idle: '    queued dialling sending .       .       .      .        .      closed',
  queued: '  .      dialling sending .       .       .      .        .      closed',
  dialling: '.      .        sending .       .       .      .        .      closed',
  sending: ' .      .        .       waiting reading closed .        .      closed',
  waiting: ' .      .        .       .       reading closed .        .      closed',
  reading: ' .      .        .       .       .       .      draining closed closed',
  draining: '.      .        .       .       .       .      .        closed closed',
  closed: '  .      .        .       .       .       .      .        .      .',
}

t.test('each event in each state', async t => {
  for (const [state, row] of Object.entries(table)) {
    const next = row.trim().split(/ +/)
    t.equal(next.length, events.length, state)
    for (const [index, event] of events.entries()) {
      const expected = next[index] === '.' ? state : next[index]
      t.equal(afterEvent(state as RequestState, event), expected, `${state}, ${event}`)
    }
  }
})

t.test('every state leads to closed, and from there none leads on', async t => {
  const states = Object.keys(table) as RequestState[]
  for (const state of states) t.equal(afterEvent(state, 'failed'), 'closed')
  for (const event of events) t.equal(afterEvent('closed', event), 'closed')
})

t.test('a life says whether an event changed it', async t => {
  const life = new RequestLife()
  t.ok(life.on('dial'))
  t.notOk(life.on('sent'), 'there is no connection yet')
  t.ok(life.on('connected'))
  t.ok(life.on('head'), 'an answer may come before all is sent')
  t.notOk(life.on('sent'))
  t.equal(life.state, 'reading')
  t.ok(life.on('left'))
  t.ok(life.on('ended'))
  t.notOk(life.on('failed'), 'what comes late')
  t.equal(life.state, 'closed')
})
