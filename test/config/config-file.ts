import { execFileSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { decodeConfig, loadConfigFile } from '../../lib/config/config-file.ts'
import { type Check, keyPath, nearestName } from '../../lib/config/reading.ts'

/** Accepts everything, or remarks on the paths it is given. */
const accept: Check<unknown> = found => ({ ok: true, value: found, warnings: [] })
const remarkOn =
  (...paths: ReadonlyArray<readonly (string | number)[]>): Check<unknown> =>
  () => ({
    ok: false,
    problems: paths.map(path => ({ path, at: 'value', text: 'wrong' })),
    warnings: [],
  })

const problemsOf = (text: string, check = accept): readonly string[] => {
  const loaded = decodeConfig(text, 'f.yaml', check)
  return loaded.ok ? [] : loaded.problems
}

t.test('values come out, keys without a value do not', t => {
  const loaded = decodeConfig('a: 1\nb:\nc:\n  d:\n  e: [x, ~]\n', 'f.yaml', accept)
  t.ok(loaded.ok)
  t.strictSame(loaded.ok && loaded.value, { a: 1, c: { e: ['x', null] } })
  t.strictSame(decodeConfig('', 'f.yaml', accept), { ok: true, value: {}, warnings: [] })
  t.strictSame(decodeConfig('# nothing\n', 'f.yaml', accept), { ok: true, value: {}, warnings: [] })
  t.end()
})

t.test('a remark points at the line and column of its value', t => {
  const text = 'a: 1\nlist:\n  - x\n  - {k: 5,\n     z: 6}\nanchor: &x {q: 1}\nuse: *x\n'
  const paths = [['a'], ['list', 1, 'z'], ['use', 'q'], ['list', 0], ['absent'], ['list', 9], []]
  t.strictSame(problemsOf(text, remarkOn(...paths)), [
    'f.yaml:1:1: absent: wrong',
    'f.yaml:1:1: wrong',
    'f.yaml:1:4: a: wrong',
    'f.yaml:3:3: list[9]: wrong',
    'f.yaml:3:5: list[0]: wrong',
    'f.yaml:5:9: list[1].z: wrong',
    'f.yaml:6:16: use.q: wrong',
  ])
  const key: Check<unknown> = () => ({
    ok: true,
    value: 1,
    warnings: [{ path: ['list'], at: 'key', text: 'hm' }],
  })
  t.strictSame(decodeConfig(text, 'f.yaml', key).warnings, ['f.yaml:2:1: list: hm'])
  t.end()
})

t.test('what is not YAML is told with its place', t => {
  const table: ReadonlyArray<readonly [string, RegExp]> = [
    ['a: 1\nb: 2\na: 3\n', /^f.yaml:3:1: this key is written twice/],
    ['a:\n\tb: 1\n', /^f.yaml:2:1: a tab cannot indent/],
    ['z: 1\na: "x\nb: 1\n', /^f.yaml:2:4: the " that begins here is not closed: a " is missing/],
    ["a: 'x\n", /^f.yaml:1:4: the ' that begins here is not closed/],
    ['a: [b, c\nd: 1\n', /^f.yaml:1:4: the \[ that begins here is not closed: a \] is missing/],
    ['a: {b: [c, d}\n', /^f.yaml:1:8: the \[ that begins here is not closed/],
    ['a:\n  b: {c: 1\n', /^f.yaml:2:6: the \{ that begins here is not closed: a \} is missing/],
    ['a:\n  - b\n - c\n', /^f.yaml:3:[12]: this line is not indented as the lines above/],
    ['a: b: c\n', /^f.yaml:1:4: .* a value with a colon and a space in it needs quotes/],
    ['a: b\nc = d\n', /^f.yaml:2:1: this is neither `key: value` nor part of the line above/],
    ['a: [1,,2]\n', /^f.yaml:1:7: this character is not expected here/],
    ['a: *b\n', /^f.yaml:1:4: a value that begins with \* needs quotes$/],
    ['a:\n  b: 1\n   c: 2\n', /^f.yaml:[23]:\d+: (this line is not indented|.*a colon missing)/],
    ['a 1\nb: 2\n', /^f.yaml:1:1: .*is a colon missing\?$/],
    ['a: @x\n', /^f.yaml:1:4: .*put the value in quotes$/],
    ['a: "\\q"\n', /^f.yaml:1:\d+: .*use single quotes$/],
    ['a: 1\n---\nb: 2\n', /^f.yaml:2:1: a second document/],
    ['a: !secret x\n', /^f.yaml:1:4: .*tags are not used/],
    ['[a]: 1\n', /^f.yaml:1:1/],
  ]
  for (const [text, expected] of table) {
    const [problem, ...more] = problemsOf(text)
    t.match(problem, expected, text)
    t.strictSame(more, [], 'one mistake, one line')
  }
  t.end()
})

t.test('a hostile file costs little and is refused', t => {
  let bomb = 'l0: &l0 [x, x, x, x, x, x, x, x, x]\n'
  for (let i = 1; i < 12; i += 1) {
    bomb += `l${i}: &l${i} [${Array.from({ length: 9 }, () => `*l${i - 1}`).join(', ')}]\n`
  }
  t.match(problemsOf(bomb)[0], /nested too deeply, or has too many aliases/)
  for (const deep of ['['.repeat(50_000), '{a: '.repeat(20_000), '- '.repeat(20_000)]) {
    const problems = problemsOf(deep)
    t.ok(problems.length > 0 && problems.length <= 5, deep.slice(0, 8))
  }
  const loaded = decodeConfig('__proto__: {polluted: yes}\n', 'f.yaml', accept)
  t.equal(Object.getPrototypeOf(loaded.ok ? loaded.value : null), Object.prototype)
  t.notOk('polluted' in {})
  t.end()
})

t.test('a file that cannot be read is one sentence', async t => {
  const directory = t.testdir({
    good: 'a: 1\n',
    bom: '\ufeffa: 1\n',
    latin: Buffer.from([0x61, 0x3a, 0x20, 0xe9]),
    large: Buffer.alloc(1024 * 1024 + 1, 0x23),
    folder: {},
  })
  const load = async (name: string) => {
    const loaded = await loadConfigFile(join(directory, name), accept)
    return loaded.ok ? loaded.value : loaded.problems.join('\n').replace(directory, '')
  }
  t.strictSame(await load('good'), { a: 1 })
  t.strictSame(await load('bom'), { a: 1 })
  t.equal(await load('absent'), '/absent: there is no such file')
  t.equal(await load('folder'), '/folder: it is not a regular file')
  t.match(await load('good/more'), /a part of this path is not a directory/)
  t.match(await load('latin'), /is not UTF-8/)
  t.match(await load('large'), /is larger than 1 MiB/)
  execFileSync('mkfifo', [join(directory, 'fifo')])
  t.match(await load('fifo'), /is not a regular file/, 'a FIFO without a writer is not waited for')
  if (process.getuid?.() !== 0) {
    chmodSync(join(directory, 'good'), 0)
    t.match(
      await load('good'),
      /this user may not read it; run the command as the user of the service/,
    )
  }
})

t.test('the nearest word is suggested only when it is near', t => {
  const known = ['listen_port', 'domains', 'clients', 'ports']
  t.equal(nearestName('listen_prot', known), 'listen_port')
  t.equal(nearestName('Domain', known), 'domains')
  t.equal(nearestName('cleints', known), 'clients')
  t.equal(nearestName('colour', known), undefined)
  t.equal(nearestName('x'.repeat(100_000), known), undefined)
  t.equal(nearestName('', known), undefined)
  t.equal(keyPath(['remap', 2, 'from']), 'remap[2].from')
  t.end()
})
