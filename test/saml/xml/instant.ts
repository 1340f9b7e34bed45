import t from 'tap'
import { formatInstant, parseInstant, parseXmlDuration } from '../../../lib/saml/xml/instant.ts'

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

t.test('durations are read to the second; months and years about', t => {
  const day = 86_400_000
  for (const [text, expected] of [
    ['PT1H', 3_600_000],
    [' P1D\n', day],
    ['P1DT2H3M4.9S', day + 7_384_000],
    ['PT0S', 0],
    ['P0Y0M0DT6H0M0.000S', 21_600_000],
    ['P1Y', 365 * day],
    ['P1M', 30 * day],
    ['PT1M', 60_000],
    ['PT604800S', 7 * day],
    ...['', 'P', 'PT', 'P1DT', '-P1D', '1D', 'P1H', 'PT1', 'P1D1Y', 'PT.5S', 'PT1.S', 'pt1h'].map(
      wrong => [wrong, undefined] as const,
    ),
    ['PT1234567890S', undefined],
  ] as const) {
    t.equal(parseXmlDuration(text), expected, text)
  }
  t.end()
})
