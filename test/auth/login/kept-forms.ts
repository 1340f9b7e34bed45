import { randomBytes } from 'node:crypto'
import t from 'tap'
import { KeptForms } from '../../../lib/auth/login/kept-forms.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const minute = 60_000
const ada = { owner: 'ada', target: '/save', network: '192.0.2.1' }
const form = { contentType: 'text/plain', content: Buffer.from('a=1') }
const large = { contentType: 'text/plain', content: Buffer.alloc(7 * 1024 * 1024) }

function keeping() {
  const clock = new ManualClock(1000)
  return { clock, forms: new KeptForms(clock, randomBytes) }
}

t.test('what is kept is handed out once, as it was', async t => {
  const { forms } = keeping()
  const key = forms.put('1', form, ada, minute)
  t.same(await forms.placeOf('1', 'ada'), { target: '/save' })
  t.same(await forms.take('1', key, ada), form)
  t.same(await forms.take('1', key, ada), { because: 'gone' })
  t.equal(forms.bytes, 0)
})

t.test('another person, address, key or time gets nothing, and nothing stays', async t => {
  for (const [place, because, take] of [
    [{ ...ada, owner: 'bert' }, 'other-user', (key: string) => key],
    [{ ...ada, target: '/delete' }, 'gone', (key: string) => key],
    [ada, 'gone', () => randomBytes(32).toString('base64url')],
    [ada, 'gone', () => ''],
  ] as const) {
    const { forms } = keeping()
    const key = forms.put('1', form, ada, minute)
    t.same(await forms.take('1', take(key), place), { because })
    t.same(await forms.take('1', key, ada), { because: 'gone' })
    t.equal(forms.bytes, 0)
  }
  const { forms, clock } = keeping()
  const key = forms.put('1', form, ada, minute)
  clock.advance(minute + 1)
  t.same(await forms.placeOf('1', 'ada'), { because: 'gone' })
  t.same(await forms.take('1', key, ada), { because: 'gone' })
})

t.test('a look by somebody else throws the form away', async t => {
  const { forms } = keeping()
  const key = forms.put('1', form, ada, minute)
  t.same(await forms.placeOf('1', 'bert'), { because: 'other-user' })
  t.same(await forms.take('1', key, ada), { because: 'gone' })
  t.equal(forms.bytes, 0)
})

t.test('one person has four, and takes nobody else’s room with a fifth', async t => {
  const { forms } = keeping()
  forms.put('b', form, { ...ada, owner: 'bert' }, minute)
  for (const id of ['1', '2', '3', '4', '5', '6']) forms.put(id, form, ada, minute)
  const left: string[] = []
  for (const id of ['1', '2', '3', '4', '5', '6']) {
    if ('target' in (await forms.placeOf(id, 'ada'))) left.push(id)
  }
  t.same(left, ['3', '4', '5', '6'])
  t.same(await forms.placeOf('b', 'bert'), { target: '/save' })
})

t.test('of a browser without a last user: the first who signs in, and no one after', async t => {
  const { forms } = keeping()
  const first = { ...ada, owner: undefined }
  const key = forms.put('1', form, first, minute)
  t.same(await forms.placeOf('1', 'ada'), { target: '/save' })
  t.same(await forms.take('1', key, { ...ada, owner: 'bert' }), { because: 'other-user' })
  t.same(await forms.take('1', forms.put('1', form, first, minute), ada), form)
  t.equal(forms.bytes, 0)
})

t.test('strangers displace no form of a known user, and four of one network', async t => {
  const { forms } = keeping()
  forms.put('a', form, ada, minute)
  for (let i = 0; i < 1500; i += 1) {
    forms.put(`s${i}`, form, { ...ada, owner: undefined, network: `n${i % 200}` }, minute)
  }
  for (let i = 0; i < 10; i += 1) {
    forms.put(`l${i}`, large, { ...ada, owner: undefined, network: `m${i}` }, minute)
    t.ok(forms.bytes <= 17 * 1024 * 1024)
  }
  t.same(await forms.placeOf('a', 'ada'), { target: '/save' })
  for (let i = 0; i < 6; i += 1) forms.put(`t${i}`, form, { ...ada, owner: undefined }, minute)
  const left = await Promise.all(Array.from({ length: 6 }, (_, i) => forms.placeOf(`t${i}`, 'x')))
  t.same(
    left.map(place => 'target' in place),
    [false, false, true, true, true, true],
  )
})

t.test('memory is bounded in bytes and in number; the oldest go', async t => {
  const { forms } = keeping()
  for (let i = 0; i < 10; i += 1) {
    forms.put(`${i}`, large, { ...ada, owner: `${i}` }, minute)
    t.ok(forms.bytes <= 32 * 1024 * 1024)
  }
  t.same(await forms.placeOf('9', '9'), { target: '/save' })
  t.same(await forms.placeOf('0', '0'), { because: 'gone' })
  for (let i = 0; i < 1500; i += 1) forms.put(`s${i}`, form, { ...ada, owner: `s${i}` }, minute)
  const left = await Promise.all(
    Array.from({ length: 1500 }, (_, i) => forms.placeOf(`s${i}`, `s${i}`)),
  )
  t.equal(left.filter(place => 'target' in place).length, 1000)
})
