/**
 * What becomes of the origin's connection when its content is not wanted.
 */
import t from 'tap'
import type { Source } from '../../../lib/bytes/source.ts'
import { beginDownload } from '../../../lib/cache/fetch/transfer.ts'
import type { OriginResponse } from '../../../lib/http/client/client.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { opened } from '../../fixtures/store/opened.ts'

t.test('content of another size than promised lets its connection go', async t => {
  const { store } = await opened(t)
  let over = false
  const content: Source = {
    next: () => {},
    close: () => {
      over = true
    },
  }
  const response: OriginResponse = {
    status: 200,
    reason: 'OK',
    version: '1.1',
    fields: Fields.empty,
    length: 5,
    content,
    address: '192.0.2.1',
    reused: false,
    trailers: () => Fields.empty,
  }
  const begin = () => beginDownload(response, store, { length: 5, expected: { size: 4 } })
  t.throws(begin, { code: 'wrong-size', fault: 'upstream' })
  t.ok(over)
})
