import t from 'tap'
import { isToken } from '../../../lib/http/message/field.ts'
import { mediaTypeOf } from '../../../lib/http/message/media.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

t.test('media types of RFC 9110 section 8.3.1', t => {
  const table: ReadonlyArray<readonly [text: string, expected: string | undefined]> = [
    ['text/html', 'text/html'],
    ['Text/HTML;Charset="utf-8"', 'text/html'],
    ['text/html; charset=UTF-8', 'text/html'],
    ['text/html ;\t; a="b;c\\"d" ;e=f;', 'text/html'],
    ['text/html; a=1; A=2', 'text/html'],
    ['*/*', '*/*'],
    ['application/vnd.debian.binary-package', 'application/vnd.debian.binary-package'],
    ['text', undefined],
    ['text/', undefined],
    ['/html', undefined],
    ['text/html/x', undefined],
    ['text /html', undefined],
    ['text/html; charset', undefined],
    ['text/html; charset =utf-8', undefined],
    ['text/html; charset="utf-8', undefined],
    ['text/html; =x', undefined],
    ['text/html, text/plain', undefined],
    [`text/html${';a=b'.repeat(200)}`, 'text/html'],
    [`text/html${';a=b'.repeat(125_000)}`, undefined],
    ['', undefined],
  ]
  for (const [text, expected] of table) {
    t.equal(mediaTypeOf(text), expected, text)
  }
  t.end()
})

t.test('hostile values never throw', t => {
  const chance = seeded(11)
  for (let i = 0; i < 4000; i += 1) {
    const value = chance.mutate(chance.pick(['text/html; charset="utf-8"', '']), hostilePieces)
    const found = mediaTypeOf(value)
    if (found !== undefined && !found.split('/').every(isToken)) t.fail(JSON.stringify(value))
  }
  t.end()
})
