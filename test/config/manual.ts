import { spawnSync } from 'node:child_process'
import t from 'tap'
import { code, entry, heading, manPage, markdown } from '../../lib/config/manual.ts'

const blocks = [
  heading('First things'),
  'Use `--cache-dir`. It’s a \\ and “more”.',
  heading('log', 3),
  entry('log.level', 'Word. Default: `info`.', 'More.', code("log:\n  level: 'x'")),
  '.begins with a full stop',
]

t.test('Markdown: entries stand one level below what they stand under', t => {
  const text = markdown('Title', blocks)
  t.match(text, /^# Title\n\n## First things\n\n/)
  t.match(
    text,
    '\n\n### log\n\n#### `log.level`\n\nWord. Default: `info`.\n\nMore.\n\n```yaml\nlog:\n',
  )
  t.end()
})

t.test('man pages: literal text can be copied, a line is never a request by accident', t => {
  const page = manPage('x.yaml', 'a file', blocks)
  t.match(page, /^\.TH X\.YAML 5 "\d{4}-\d\d-\d\d" "x" "File formats"$/m)
  t.match(page, '.SH FIRST THINGS\n')
  t.match(page, 'Use \\fB\\-\\-cache\\-dir\\fR.\nIt\\(cqs a \\e and')
  t.match(
    page,
    '\n.SS log\n.TP\n.B log.level\nWord.\nDefault: \\fBinfo\\fR.\n.IP\nMore.\n.IP\n.nf\nlog:\n  level: \\(aqx\\(aq\n.fi\n',
  )
  t.match(page, '\n\\&.begins')
  t.end()
})

const groff = spawnSync('groff', ['--version']).status === 0

for (const page of ['man/cachesvc.8', 'man/cachesvc.yaml.5', 'man/authproxy.8']) {
  t.test(`${page} is clean`, { skip: !groff && 'no groff here' }, t => {
    const { stderr, status } = spawnSync('groff', ['-man', '-ww', '-Tutf8', '-z', page], {
      encoding: 'utf8',
    })
    t.equal(stderr, '')
    t.equal(status, 0)
    t.end()
  })
}
