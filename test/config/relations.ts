/**
 * What settings need, exclude, or have no effect without: what a file is told, and what the manual says.
 */
import t from 'tap'
import { settings as gatewaySettings } from '../../lib/auth/config/settings.ts'
import { settings as cacheSettings } from '../../lib/cache/config/settings.ts'
import { keyPath } from '../../lib/config/reading.ts'
import { checkRelations, relationSentences } from '../../lib/config/relations.ts'
import { boolean, integer, text } from '../../lib/config/setting-kinds.ts'
import {
  checkSettings,
  group,
  listOf,
  manualPages,
  optionalSetting,
  setting,
} from '../../lib/config/settings.ts'

const settings = group('', {
  peers: setting(listOf(text, 'names'), []).says('Peers.'),
  introduces: setting(boolean, false).needs('peers', 'name who may').says('Whether they may.'),
  port: setting(integer(0, 9), 1).excludes('listen').says('A port.'),
  listen: optionalSetting(text).says('A place.'),
  backend: group('', {
    at: optionalSetting(text).says('Where.'),
    name_in_tls: optionalSetting(text).noEffectWithout('backend.at').says('A name.'),
    user: optionalSetting(text)
      .noEffectWithout('backend.at')
      .needs('backend.password')
      .says('A user.'),
    password: optionalSetting(text).says('A password.'),
  }),
})

function told(found: object): { readonly wrong: string; readonly warned: string } {
  const checked = checkSettings(settings)(found)
  const { problems, warnings } = checkRelations(settings, found, checked.ok && checked.value)
  const lines = (remarks: typeof problems) =>
    remarks.map(({ path, text }) => `${keyPath(path)} ${text}`).join('\n')
  return { wrong: lines(problems), warned: lines(warnings) }
}

t.test('a file is told what belongs together', async t => {
  for (const [found, wrong, warned] of [
    [{}, '', ''],
    [{ introduces: true }, 'introduces also needs peers: name who may', ''],
    [{ introduces: true, peers: [] }, 'introduces also needs peers: name who may', ''],
    [{ introduces: true, peers: ['a'] }, '', ''],
    [{ introduces: false }, '', ''],
    [{ port: 1 }, '', ''],
    [{ port: 1, listen: 'a' }, 'port not together with listen; leave one', ''],
    [{ backend: { name_in_tls: 'a' } }, '', 'backend.name_in_tls has no effect without backend.at'],
    [{ backend: { name_in_tls: 'a', at: 'b' } }, '', ''],
    [{ backend: { user: 'a', at: 'b' } }, 'backend.user also needs backend.password', ''],
    // What has no effect needs nothing: the file was accepted so far.
    [{ backend: { user: 'a' } }, '', 'backend.user has no effect without backend.at'],
  ] as const) {
    t.strictSame(told(found), { wrong, warned }, JSON.stringify(found))
  }
})

t.test('a value of the other setting can be what counts', async t => {
  const where = { tls: true }
  const tree = group('', {
    url: setting(text, 'a').says('Where.'),
    authority: optionalSetting(text)
      .noEffectWithout('url', where, 'it is reached without TLS')
      .says('Whose.'),
  })
  const warnings = (url: unknown) =>
    checkRelations(tree, { authority: 'x' }, { url, authority: 'x' }).warnings.map(
      ({ text }) => text,
    )
  t.strictSame(warnings({ tls: true }), [])
  t.strictSame(warnings({ tls: false }), ['has no effect: it is reached without TLS'])
  t.strictSame(warnings(undefined), [], 'that it is missing is another remark')
})

t.test('the manual says it', async t => {
  t.strictSame(
    relationSentences([
      { is: 'needs', other: 'a' },
      { is: 'needs', other: 'b.c', mend: 'name it' },
      { is: 'excludes', other: 'd' },
      { is: 'excludes', other: 'e' },
      { is: 'no-effect-without', other: 'f' },
      { is: 'no-effect-without', other: 'g', where: { tls: true }, unless: 'g is open' },
    ]),
    [
      'Needs `a` and `b.c`.',
      'Not together with `d` or `e`.',
      'Has no effect without `f`.',
      'Has no effect where g is open.',
    ],
  )
  t.strictSame(relationSentences(), [])
})

t.test('each names a setting that there is', async t => {
  for (const tree of [gatewaySettings, cacheSettings]) {
    const pages = [...manualPages(tree)]
    const names = new Set(pages.map(({ path }) => keyPath(path)))
    const others = pages.flatMap(page =>
      'setting' in page ? (page.setting.relations ?? []).map(({ other }) => other) : [],
    )
    t.ok(others.length > 2)
    t.strictSame(
      others.filter(other => !names.has(other)),
      [],
    )
  }
})
