import t from 'tap'
import { type RouteRule, route } from '../../../lib/cache/policy/route.ts'
import type { TargetUri } from '../../../lib/http/message/target.ts'

const asked: TargetUri = { scheme: 'http', host: 'archive.example.org', port: 80, path: '/d/x' }
const mirror: TargetUri = { ...asked, host: 'mirror.example.org' }

t.test('without rules a target is its own origin', async t => {
  t.strictSame(route(asked, []), { target: asked, origins: [asked] })
})

t.test('the first rule that knows the target decides, and is named', async t => {
  const silent: RouteRule = { name: 'silent', route: () => undefined }
  const moved: RouteRule = {
    name: 'moved',
    route: () => ({ target: asked, origins: [mirror, asked] }),
  }
  const late: RouteRule = { name: 'late', route: () => ({ target: mirror, origins: [mirror] }) }
  t.strictSame(route(asked, [silent, moved, late]), {
    target: asked,
    origins: [mirror, asked],
    rule: 'moved',
  })
  t.strictSame(route(asked, [silent]), { target: asked, origins: [asked] })
})
