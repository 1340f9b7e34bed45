import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { appendVia, hasPassed, parseVia } from '../../../lib/http/proxy/via.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

t.test('we come last, after everybody the message has passed', t => {
  const fields = appendVia(Fields.of(['Via', '1.0 fred'], ['A', '1']), '1.1', 'cachesvc')
  t.equal(fields.get('via'), '1.0 fred, 1.1 cachesvc')
  t.ok(hasPassed(fields, 'cachesvc'))
  t.equal(appendVia(Fields.empty, '1.1', 'cachesvc').get('via'), '1.1 cachesvc')
  t.end()
})

t.test('members are read as RFC 9110 section 7.6.3 writes them', t => {
  const table: ReadonlyArray<readonly [value: string, names: readonly string[]]> = [
    ['1.0 fred, 1.1 p.example.net', ['fred', 'p.example.net']],
    ['HTTP/1.1\t p.example.net:3142', ['p.example.net:3142']],
    ['1.1 a (Apache/1.1 (x, 1.1 b) \\) , 1.1 c), ,1.1 d', ['a', 'd']],
    ['1.1 a (never ends, 1.1 b', ['a']],
    ['1.1 a) b, 1.1', []],
    ['a, 1.1, b c d, (x)', []],
    ['', []],
  ]
  for (const [value, names] of table) t.strictSame(parseVia(value), names, value)
  t.end()
})

t.test('only our own pseudonym, outside comments, makes a circle', t => {
  const table: ReadonlyArray<readonly [value: string | undefined, circle: boolean]> = [
    [undefined, false],
    ['1.1 cachesvc-a', true],
    ['1.1 CacheSvc-A', true],
    ['1.0 x, HTTP/1.1 cachesvc-a (comment)', true],
    ['1.1 cachesvc-b', false],
    ['1.1 cachesvc-a.example.org', false],
    ['1.1 x (1.1 cachesvc-a)', false],
    ['1.1 x (y, 1.1 cachesvc-a, z)', false],
    ['cachesvc-a 1.1', false],
  ]
  for (const [value, circle] of table) {
    t.equal(hasPassed(Fields.of(['Via', value]), 'cachesvc-a'), circle, String(value))
  }
  t.end()
})

t.test('hostile values never throw', t => {
  const chance = seeded(5)
  for (let i = 0; i < 3000; i += 1) {
    for (const name of parseVia(chance.text([...hostilePieces, '1.1 ', ' '], 30))) {
      if (/[\s,]/.test(name.replace(/[^\x20\t,]/g, ''))) t.fail(name)
    }
  }
  t.end()
})

t.test('a Via too long to be read is that of a circle', t => {
  const longest = `${'a,'.repeat(4000)}1.1 b`
  t.notOk(hasPassed(Fields.of(['Via', longest.padEnd(8192)]), 'cachesvc'))
  t.ok(hasPassed(Fields.of(['Via', longest.padEnd(8193)]), 'cachesvc'))
  t.end()
})
