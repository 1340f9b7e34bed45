import t from 'tap'
import { isWithin, mayBeWithin, parseRange } from '../../../../lib/cache/features/deny/row.ts'

const range = (text: string) => parseRange(text) ?? []

t.test('ranges have the relations of deb-control(5) and the order of dpkg', async t => {
  for (const [text, within, without] of [
    ['5.6.0-0.2', ['5.6.0-0.2', '0:5.6.0-0.2'], ['5.6.0-0.2+b1', '1:5.6.0-0.2']],
    ['= 1.0', ['1.0', '1.0-0'], ['1.0-1', '1.0~1']],
    ['>= 5.6.0, << 5.6.1', ['5.6.0', '5.6.0-9', '5.6.1~rc1'], ['5.5.9', '5.6.1', '1:5.6.0']],
    ['>>1:2', ['1:2.1', '2:0'], ['1:2', '9.9']],
    ['<=2.0 ', ['2.0', '2.0~'], ['2.0-1']],
  ] as const) {
    for (const version of within)
      t.equal(isWithin(version, [range(text)]), true, `${version} ${text}`)
    for (const version of without)
      t.equal(isWithin(version, [range(text)]), false, `${version} ${text}`)
  }
  for (const text of ['', '< 1', '> 1', '== 1', '1.0,', '>= ', 'x', '1 2', '1/2'])
    t.equal(parseRange(text), undefined, text)
})

t.test('the version of a file name, whose epoch is not known', async t => {
  for (const [version, ranges, is] of [
    ['5.6.0', ['>= 5.6.0, << 5.6.1'], true],
    ['5.6.1', ['>= 5.6.0, << 5.6.1'], false],
    // Every bound has the epoch 1: the version has that, or none.
    ['1.9', ['<< 1:2.0'], true],
    ['3.0', ['<< 1:2.0'], 'unknown'],
    ['1:3.0', ['<< 1:2.0'], false],
    ['3.0', ['= 1:3.0'], 'unknown'],
    ['2.0', ['= 1:3.0'], false],
    [undefined, ['<< 1:2.0'], 'unknown'],
  ] as const) {
    t.equal(mayBeWithin(version, ranges.map(range)), is, `${version} ${ranges}`)
  }
  const epochs = Array.from({ length: 10_000 }, (_, n) => range(`${n}:2`))
  t.equal(mayBeWithin('3', epochs), 'unknown', 'more epochs than are tried')
  t.equal(mayBeWithin(undefined, [[]]), true, 'all versions')
  t.equal(mayBeWithin('1.0', []), false, 'none')
})
