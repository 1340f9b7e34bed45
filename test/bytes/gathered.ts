import t from 'tap'
import { GatheredBytes } from '../../lib/bytes/gathered.ts'

t.test('bytes of several reads are one piece, however many reads they come in', async t => {
  const gathered = new GatheredBytes()
  const sent = Buffer.from('GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n')
  let all: Buffer = Buffer.alloc(0)
  for (const byte of sent) all = gathered.add(Buffer.of(byte))
  t.equal(all.toString(), sent.toString())
  t.equal(gathered.length, sent.length)
})

t.test('with nothing before them, the bytes themselves are answered, not a copy', async t => {
  const bytes = Buffer.from('whole')
  t.equal(new GatheredBytes().followedBy(bytes), bytes)
})

t.test('what is kept comes before the next bytes', async t => {
  const gathered = new GatheredBytes()
  const first = gathered.followedBy(Buffer.from('first|sec'))
  gathered.keep(first, 6)
  const second = gathered.followedBy(Buffer.from('ond|thi'))
  t.equal(second.toString(), 'second|thi')
  gathered.keep(second, 7)
  t.equal(gathered.followedBy(Buffer.from('rd')).toString(), 'third')
})

t.test('nothing is left when all was used, taken or cleared', async t => {
  const gathered = new GatheredBytes()
  gathered.keep(gathered.followedBy(Buffer.from('all')), 3)
  t.equal(gathered.length, 0)
  gathered.add(Buffer.from('taken'))
  const taken = gathered.take()
  gathered.add(Buffer.from('other'))
  t.equal(taken.toString(), 'taken', 'later bytes are not written over what was taken')
  gathered.clear()
  t.equal(gathered.length, 0)
})
