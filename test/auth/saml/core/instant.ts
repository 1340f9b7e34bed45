import t from 'tap'
import { formatInstant, parseInstant } from '../../../../lib/auth/saml/core/instant.ts'

t.test('instants are read to the millisecond, in UTC unless they say otherwise', t => {
  for (const [text, iso] of [
    ['2026-11-20T12:00:00Z', '2026-11-20T12:00:00.000Z'],
    [' 2026-11-20T12:00:00.123456789Z\n', '2026-11-20T12:00:00.123Z'],
    ['2026-11-20T12:00:00.5', '2026-11-20T12:00:00.500Z'],
    ['2026-11-20T12:00:00+01:00', '2026-11-20T11:00:00.000Z'],
    ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
  ] as const) {
    t.equal(parseInstant(text), Date.parse(iso), text)
    t.equal(formatInstant(Date.parse(iso)), `${iso.slice(0, 19)}Z`)
  }
  for (const text of [
    '',
    'soon',
    '2026-11-20',
    '2026-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-11-20T24:00:00Z',
    '2026-11-20T12:00:00+25:00',
    '2026-11-20T12:00:00z',
    '\u00a02026-11-20T12:00:00Z',
  ]) {
    t.equal(parseInstant(text), undefined, text)
  }
  t.end()
})
