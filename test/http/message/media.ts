import t from 'tap'
import { parseMediaType, prefersHtml, quality } from '../../../lib/http/message/media.ts'
import { hostilePieces, seeded } from '../../fixtures/seeded-random.ts'

t.test('media types of RFC 9110 section 8.3.1', t => {
  const table: ReadonlyArray<
    readonly [text: string, expected: readonly [essence: string, parameters: object] | undefined]
  > = [
    ['text/html', ['text/html', {}]],
    ['Text/HTML;Charset="utf-8"', ['text/html', { charset: 'utf-8' }]],
    ['text/html; charset=UTF-8', ['text/html', { charset: 'UTF-8' }]],
    ['text/html ;\t; a="b;c\\"d" ;e=f;', ['text/html', { a: 'b;c"d', e: 'f' }]],
    ['text/html; a=1; A=2', ['text/html', { a: '1' }]],
    ['*/*', ['*/*', {}]],
    ['application/vnd.debian.binary-package', ['application/vnd.debian.binary-package', {}]],
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
    ['', undefined],
  ]
  for (const [text, expected] of table) {
    const found = parseMediaType(text)
    const short = found && [`${found.type}/${found.subtype}`, Object.fromEntries(found.parameters)]
    t.strictSame(short, expected, text)
  }
  t.end()
})

t.test('the most specific range decides (12.5.1)', t => {
  const accept =
    'text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/html;q=0, */*;q=0.5'
  const table: ReadonlyArray<readonly [type: string, subtype: string, quality: number]> = [
    ['text', 'plain', 1],
    ['text', 'css', 0.3],
    ['text', 'html', 0],
    ['image', 'png', 0.5],
  ]
  for (const [type, subtype, expected] of table) {
    t.equal(quality(accept, type, subtype), expected, `${type}/${subtype}`)
  }
  t.equal(quality('text/html', 'text', 'plain'), 0)
  t.equal(quality('', 'text', 'plain'), 0)
  t.equal(quality('*/html', 'text', 'html'), 0)
  t.end()
})

t.test('HTML goes to those who would rather have it', t => {
  const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8'
  const table: ReadonlyArray<readonly [accept: string | undefined, html: boolean]> = [
    [undefined, false],
    ['', false],
    ['*/*', false],
    ['text/*', false],
    [browser, true],
    ['TEXT/HTML', true],
    ['text/html;q=0.5, text/plain;q=0.4', true],
    ['text/html;q=0.4, text/plain;q=0.5', false],
    ['text/plain, text/html', false],
    ['text/html;q=0', false],
    ['*/*, text/html;q=0.9', false],
    ['text/plain;q=0, */*', true],
    ['application/json', false],
    // a malformed weight spoils its own range only
    ['text/html;q=2, */*', false],
    ['text/html;q=0.1234, */*', false],
    ['text/html;q=, */*;q=0.1', false],
    ['text/html;q=1.000', true],
    ['text/html;q="0.5", text/plain;q=0.4', true],
  ]
  for (const [accept, html] of table) t.equal(prefersHtml(accept), html, String(accept))
  t.end()
})

t.test('hostile values never throw', t => {
  const chance = seeded(11)
  const samples = ['text/html; charset="utf-8"', 'text/*;q=0.3, */*;q=0.5', '']
  for (let i = 0; i < 4000; i += 1) {
    const value = chance.mutate(chance.pick(samples), hostilePieces)
    parseMediaType(value)
    const weight = quality(value, 'text', 'html')
    if (!(weight >= 0 && weight <= 1)) t.fail(JSON.stringify(value))
  }
  t.end()
})
