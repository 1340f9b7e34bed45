import t from 'tap'
import { hashLine, readHashLine } from '../../../lib/cache/config/password-hash.ts'

t.test('a line has a salt of its own, and nothing else is read as one', async t => {
  const line = await hashLine('päss:word')
  t.not(line, await hashLine('päss:word'))
  t.ok(readHashLine(line))
  for (const wrong of [
    '',
    'päss:word',
    line.slice(0, -4),
    `${line}$AAAA`,
    line.replace('14', '10'),
  ])
    t.equal(readHashLine(wrong), undefined, wrong)
})
