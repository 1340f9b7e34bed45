/**
 * Who opens a page, and where it opens, by what browsers say.
 */
import t from 'tap'
import { isByWorker, isFramed, isNavigation } from '../../../lib/auth/access/navigation.ts'
import { Fields } from '../../../lib/http/message/field.ts'
import { requestWith } from '../../fixtures/gateway/gateway.ts'

const html = 'text/html,application/xhtml+xml,*/*;q=0.8'

function asked(mode: string, place: string | undefined, accept: string, method = 'GET') {
  return requestWith(
    Fields.of(['Sec-Fetch-Mode', mode], ['Sec-Fetch-Dest', place], ['Accept', accept]),
    { method },
  )
}

t.test('a person who opens a page is told from a script, through a service worker too', async t => {
  for (const [name, request, expected] of [
    ['a page', asked('navigate', 'document', html), true],
    ['a frame', asked('navigate', 'iframe', html), true],
    ['without a destination', asked('navigate', undefined, html), true],
    ['a page through a service worker', asked('navigate', 'empty', html), true],
    ['a form through a service worker', asked('navigate', 'empty', html, 'POST'), true],
    ['a link with the attribute download', asked('navigate', 'empty', '*/*'), false],
    ['a fetch of a script', asked('cors', 'empty', '*/*'), false],
    ['a fetch that asks for a page', asked('same-origin', 'empty', html), false],
    ['a worker that fetches an address', asked('cors', 'empty', html), false],
    ['an object', asked('navigate', 'object', html), false],
    ['an image', asked('no-cors', 'image', 'image/*'), false],
    ['a deletion', asked('navigate', 'document', html, 'DELETE'), false],
  ] as const) {
    t.equal(isNavigation(request), expected, name)
  }
})

t.test('frames and workers are known by the destination', async t => {
  t.equal(isFramed(asked('navigate', 'iframe', html)), true)
  t.equal(isFramed(asked('navigate', 'frame', html)), true)
  t.equal(isFramed(asked('navigate', 'document', html)), false)
  t.equal(isByWorker(asked('navigate', 'empty', html)), true)
  t.equal(isByWorker(asked('navigate', 'document', html)), false)
  t.equal(isByWorker(asked('cors', 'empty', html)), false)
})
