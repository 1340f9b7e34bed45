/**
 * Settings that only a restart puts in force: what a reload leaves as it was, and what an operator reads.
 */
import t from 'tap'
import {
  fixedPlaces,
  waitingSentences,
  waitingSettings,
  withFixed,
} from '../../lib/config/restart.ts'
import { boolean, integer } from '../../lib/config/setting-kinds.ts'
import { group, optionalSetting, setting } from '../../lib/config/settings.ts'

const number = integer(0, 9)
const places = fixedPlaces(
  group('', {
    listen_port: optionalSetting(number).needsRestart('listen', 'secure').says('The port.'),
    more_ports: optionalSetting(number).needsRestart('listen').says('Another.'),
    loud: setting(boolean, false).says('Taken at once.'),
    limits: group('Limits.', {
      head: setting(number, 1).needsRestart().says('A limit.'),
      rate: setting(number, 1).says('Taken at once.'),
    }),
    store: group('A store.', {
      url: optionalSetting(number).needsRestart('store').says('Where.'),
      user: optionalSetting(number).needsRestart('store').says('Who.'),
      region: optionalSetting(number).needsRestart('store').says('In which.'),
    }),
  }),
)
const started = {
  listen: 1,
  secure: 2,
  loud: false,
  limits: { head: 1, rate: 1 },
  store: { url: 1 },
}

t.test('fixed places stay as they were at the start, all others change', async t => {
  const wanted = {
    listen: 3,
    secure: 4,
    loud: true,
    limits: { head: 5, rate: 6 },
    store: { url: 7 },
  }
  const inForce = withFixed(places, started, wanted)
  t.strictSame(inForce, { ...started, loud: true, limits: { head: 1, rate: 6 } })
  t.strictSame(
    waitingSettings(places, inForce, wanted),
    ['listen_port or more_ports', 'limits.head', 'store'],
    'a derived place is not named by itself',
  )
  t.strictSame(waitingSettings(places, started, started), [])
})

t.test('a group that was absent at the start stays absent', async t => {
  const before = { ...started, store: undefined as unknown }
  t.equal(withFixed<object & { store: unknown }>(places, before, started).store, undefined)
  t.strictSame(waitingSettings(places, before, started), ['store'])
})

t.test('the sentence names each setting once, and there is none without one', async t => {
  t.strictSame(waitingSentences([]), [])
  t.strictSame(waitingSentences(['limits.head', 'store']), [
    'changed, and in force after a restart: limits.head; store',
  ])
})
