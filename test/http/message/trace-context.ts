import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { traceIdOf, withValidTrace } from '../../../lib/http/message/trace-context.ts'

const id = '4bf92f3577b34da6a3ce929d0e0e4736'
const parent = '00f067aa0ba902b7'

t.test('what a valid traceparent is', t => {
  for (const valid of [
    `00-${id}-${parent}-01`,
    `00-${id}-${parent}-00`,
    `00-${id}-${parent}-ff`,
    `01-${id}-${parent}-01`,
    `cc-${id}-${parent}-01-what-comes`,
    `fe-${id}-${parent}-01-`,
  ]) {
    t.equal(traceIdOf(Fields.of(['TraceParent', valid])), id, valid)
  }
  for (const wrong of [
    '',
    id,
    `00-${id}-${parent}`,
    `00-${id}-${parent}-`,
    `00-${id}-${parent}-1`,
    `00-${id}-${parent}-01-`,
    `00-${id}-${parent}-01-more`,
    `00-${id}-${parent}-01.`,
    `ff-${id}-${parent}-01`,
    `0-${id}-${parent}-01`,
    `0g-${id}-${parent}-01`,
    `01-${id}-${parent}-01more`,
    `00-${id.toUpperCase()}-${parent}-01`,
    `00-${'0'.repeat(32)}-${parent}-01`,
    `00-${id}-${'0'.repeat(16)}-01`,
    `00-${id}0-${parent}-01`,
    `00-${id.slice(1)}-${parent}-01`,
    `00_${id}_${parent}_01`,
    ` 00-${id}-${parent}-01`,
    `01-${id}-${parent}-01-${'x'.repeat(300)}`,
    `00-${id}-${parent}-01, 00-${id}-${parent}-01`,
  ]) {
    t.equal(traceIdOf(Fields.of(['traceparent', wrong])), undefined, wrong)
  }
  t.equal(traceIdOf(Fields.empty), undefined)
  const twice = ['traceparent', `00-${id}-${parent}-01`] as const
  t.equal(traceIdOf(Fields.of(twice, twice)), undefined, 'two are none')
  t.end()
})

t.test('without a valid traceparent there is no tracestate', t => {
  const state = ['TraceState', 'vendor=1'] as const
  const other = ['X-Other', 'stays'] as const
  const valid = Fields.of(['traceparent', `00-${id}-${parent}-01`], state, other)
  t.equal(withValidTrace(valid), valid)
  t.same(withValidTrace(Fields.of(['Traceparent', 'x'], state, other)).flat, other)
  t.same(withValidTrace(Fields.of(state, other)).flat, other)
  const none = Fields.of(other)
  t.equal(withValidTrace(none), none)
  t.end()
})
