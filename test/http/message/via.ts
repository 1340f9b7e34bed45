import t from 'tap'
import { Fields } from '../../../lib/http/message/field.ts'
import { appendVia, runsInCircle, sharedChain, viaChain } from '../../../lib/http/message/via.ts'
import { hostilePieces, seeded } from '../../fixtures/chance/seeded-random.ts'

/** The names in the chain of a Via field. */
function namesIn(value: string): readonly (string | undefined)[] {
  const chain = viaChain(Fields.of(['Via', value]))
  return chain === undefined ? [] : chain.split(', ').map(member => member.split(' ', 2)[1])
}

t.test('we come last, after everybody the message has passed', t => {
  const fields = appendVia(Fields.of(['Via', '1.0 fred'], ['A', '1']), '1.1', 'cachesvc')
  t.equal(fields.get('via'), '1.0 fred, 1.1 cachesvc')
  t.ok(runsInCircle(fields, 'cachesvc'))
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
  for (const [value, names] of table) t.strictSame(namesIn(value), names, value)
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
    t.equal(runsInCircle(Fields.of(['Via', value]), 'cachesvc-a'), circle, String(value))
  }
  t.end()
})

t.test('so many intermediaries are a circle that changes its names', t => {
  const through = (count: number, name = 'proxy') =>
    Fields.of(...Array.from({ length: count }, (_, i) => ['Via', `1.1 ${name}${i}`] as const))
  t.notOk(runsInCircle(through(20), 'cachesvc-a'))
  t.ok(runsInCircle(through(21), 'cachesvc-a'))
  t.ok(runsInCircle(through(10, 'x'.repeat(300)), 'cachesvc-a'))
  t.end()
})

t.test('the chain goes on without comments and what cannot be read', t => {
  const table: ReadonlyArray<readonly [value: string | undefined, chain: string | undefined]> = [
    [undefined, undefined],
    ['', undefined],
    [
      '1.0 fred (Apache, 1.1 x), HTTP/1.1  p.example.net:3142,',
      '1.0 fred, HTTP/1.1 p.example.net:3142',
    ],
    ['a b c, 1.1 fred', '1.1 fred'],
  ]
  for (const [value, chain] of table) t.equal(viaChain(Fields.of(['Via', value])), chain)
  t.end()
})

t.test('hostile values never throw', t => {
  const chance = seeded(5)
  for (let i = 0; i < 3000; i += 1) {
    for (const name of namesIn(chance.text([...hostilePieces, '1.1 ', ' '], 30))) {
      if (name === undefined || /[ \t,]/.test(name)) t.fail(`${name}`)
    }
  }
  t.end()
})

t.test(
  'a request for several clients has of one client’s chain only names of a kind, the last ten',
  t => {
    const chain = (value?: string) => sharedChain(Fields.of(['Via', value]), /^ours-\d+$/)
    t.equal(chain(), undefined)
    t.equal(chain('1.1 edge.example.net, 1.1 ours-x'), undefined)
    t.equal(
      chain('1.1 edge.example.net, 1.1 ours-1 (x), 1.0 <script>, 1.0 ours-2'),
      '1.1 ours-1, 1.0 ours-2',
    )
    const many = Array.from({ length: 20 }, (_, i) => `1.1 ours-${i}`)
    t.equal(chain(many.join()), many.slice(10).join(', '))
    t.end()
  },
)

t.test('a Via too long to be read is that of a circle', t => {
  const longest = `(${'a'.repeat(8000)}) 1.1 b`
  t.notOk(runsInCircle(Fields.of(['Via', longest.padEnd(8192)]), 'cachesvc'))
  t.ok(runsInCircle(Fields.of(['Via', longest.padEnd(8193)]), 'cachesvc'))
  t.end()
})
