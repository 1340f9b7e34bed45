import t from 'tap'
import { parseTarget, TargetReader } from '../../../lib/http/message/target.ts'

t.test('equal texts are one target, and it is what the text says', async t => {
  const reader = new TargetReader()
  const text = 'http://archive.example.org/debian/pool/a/alpha_1.0_amd64.deb?x=y'
  const target = reader.read('GET', text)
  t.strictSame(target, parseTarget('GET', text))
  t.equal(reader.read('GET', `${text}`), target)
  t.not(reader.read('GET', `${text}z`), target)
})

t.test('the method decides on the form, whatever was read before', async t => {
  const reader = new TargetReader()
  for (const text of ['*', 'archive.example.org:443', '/a', 'http://archive.example.org/']) {
    for (const method of ['GET', 'CONNECT', 'OPTIONS', 'HEAD', 'GET']) {
      t.strictSame(reader.read(method, text), parseTarget(method, text), `${method} ${text}`)
    }
  }
})

t.test(
  'problems are not remembered, nor are very long targets, nor more than some thousands',
  async t => {
    const reader = new TargetReader()
    t.not(reader.read('GET', '/#'), reader.read('GET', '/#'))
    const long = `/${'a'.repeat(1024)}`
    t.not(reader.read('GET', long), reader.read('GET', long))
    const first = reader.read('GET', '/first')
    for (let n = 0; n < 5000; n += 1) reader.read('GET', `/${n}`)
    t.not(reader.read('GET', '/first'), first)
  },
)
