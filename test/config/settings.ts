import t from 'tap'
import { decodeConfig } from '../../lib/config/config-file.ts'
import { jsonSchema } from '../../lib/config/manual.ts'
import { describe } from '../../lib/config/reading.ts'
import {
  boolean,
  duration,
  integer,
  oneOf,
  readPath,
  secretText,
  size,
  text,
} from '../../lib/config/setting-kinds.ts'
import {
  checkSettings,
  group,
  listOf,
  listOfGroups,
  manualPages,
  optionalSetting,
  setting,
} from '../../lib/config/settings.ts'

const tree = group('', {
  name: optionalSetting(text).says('A name.'),
  count: setting(integer(1, 10), 3).says('A count.'),
  nested: group('Things below.', {
    wait: setting(duration('1s', '1m'), '5s').says('How long.', 'And why.'),
    deeper: group('Further below.', {
      on: setting(boolean, false).says('A switch.'),
    }),
  }),
  rules: listOfGroups('list of rules', {
    from: setting(text, '').says('From.'),
    most: setting(size('0', '1G'), 0).says('Most.'),
  }).says('Rules.'),
  words: setting(listOf(oneOf('red', 'green'), 'words', 3), ['red']).says('Words.'),
})

const read = (yaml: string) => {
  const loaded = decodeConfig(yaml, 'f', checkSettings(tree))
  return loaded.ok ? loaded.value : loaded.problems
}

t.test('what is left out has its default, at every depth', t => {
  t.strictSame(read(''), {
    name: undefined,
    count: 3,
    nested: { wait: 5000, deeper: { on: false } },
    rules: [],
    words: ['red'],
  })
  t.match(read('nested: {deeper: {on: YES}}\nrules: [{from: a, most: 1K}]\nname: x'), {
    name: 'x',
    nested: { wait: 5000, deeper: { on: true } },
    rules: [{ from: 'a', most: 1024 }],
  })
  t.end()
})

t.test('problems below lists and groups are found and suggestions made there', t => {
  t.strictSame(
    read('rules: [{frm: x}, 5, {most: 2T}]\nwords: [red, gren, 4]\ncuont: 1\non: true'),
    [
      'f:1:10: rules[0].frm: no such setting; did you mean from?',
      'f:1:19: rules[1]: found 5, expected settings of the form "name: value"',
      'f:1:29: rules[2].most: found "2T", expected a size from 0 to 1G',
      'f:2:14: words[1]: found "gren", expected one of red, green; did you mean green?',
      'f:2:20: words[2]: found 4, expected one of red, green',
      'f:3:1: cuont: no such setting; did you mean count?',
      'f:4:1: on: no such setting here; did you mean nested.deeper.on?',
    ],
  )
  t.match(read('words: [red, red, red, red]'), [/more than 3 members/])
  t.match(read('rules: 5'), [/found 5, expected a list of settings/])
  t.end()
})

t.test('names that people bring from other programs lead to the settings they mean', t => {
  const foreign = { howmany: 'count', switch: 'nested.deeper.on', log: { says: 'there is no log' } }
  const told = (yaml: string) => {
    const loaded = decodeConfig(yaml, 'f', checkSettings(tree, foreign))
    return loaded.ok ? [] : loaded.problems
  }
  t.strictSame(
    told('how_many: 1\nSwitch: on\nCount: 1\nlog: x\nconstructor: 1\nnested: {how-many: 2}'),
    [
      'f:1:1: how_many: no such setting; did you mean count?',
      'f:2:1: Switch: no such setting; did you mean nested.deeper.on?',
      'f:3:1: Count: no such setting; did you mean count?',
      'f:4:1: log: no such setting; there is no log',
      'f:5:1: constructor: no such setting; remove it, or see the manual for what there is',
      'f:6:10: nested.how-many: no such setting; did you mean count?',
    ],
  )
  t.end()
})

t.test('a tree describes itself', t => {
  const pages = [...manualPages(tree)].map(page => [
    page.path.join('.'),
    'group' in page ? page.group : page.setting.manual[0],
  ])
  t.strictSame(pages, [
    ['name', 'A name.'],
    ['count', 'A count.'],
    ['nested', 'Things below.'],
    ['nested.wait', 'How long.'],
    ['nested.deeper', 'Further below.'],
    ['nested.deeper.on', 'A switch.'],
    ['rules', 'Rules.'],
    ['rules[].from', 'From.'],
    ['rules[].most', 'Most.'],
    ['words', 'Words.'],
  ])
  t.match(jsonSchema(tree, 'f'), {
    title: 'f',
    additionalProperties: false,
    properties: {
      nested: {
        description: 'Things below.',
        properties: { wait: { description: 'How long.\n\nAnd why.', default: '5s' } },
      },
      rules: { type: 'array', items: { properties: { from: { type: 'string' } } } },
      words: { items: { enum: ['red', 'green'] }, maxItems: 3 },
    },
  })
  t.end()
})

t.test('a default that is wrong is a fault of ours and found at once', t => {
  t.throws(() => duration('1 parsec', '1m'), /not a unit of time/)
  const wrong = group('', { a: setting(integer(1, 2), 3).says('x') })
  t.equal(checkSettings(wrong)({}).ok, false)
  t.end()
})

t.test('what was met is described shortly, secrets not at all', t => {
  t.equal(describe('a"b'), '"a\\"b"')
  t.ok(describe('x'.repeat(1000)).length < 70)
  t.strictSame([null, [], {}, true, 5n].map(describe), [
    'nothing',
    'a list',
    'a group of settings',
    'true',
    '5',
  ])
  const secret = checkSettings(group('', { s: optionalSetting(secretText).says('x') }))({
    s: 12345,
  })
  t.match(secret, { ok: false, problems: [{ text: /^found something else, expected text/ }] })
  t.notMatch(JSON.stringify(secret), '12345')
  t.match(readPath('a\0b'), { ok: false, problem: /NUL/ })
  t.match(readPath(''), { ok: false })
  t.end()
})
