import t, { type Test } from 'tap'
import { escapeHtml, Templates } from '../lib/template.ts'

function templates(t: Test, files: Record<string, string>): Templates {
  return Templates.read(t.testdir(files))
}

t.test('41: values are escaped for content and for quoted attributes', async t => {
  const page = templates(t, { 'page.mustache': '<p title="{{text}}">{{text}}</p>' })
  t.equal(
    page.render('page', { text: `<script>"it's" & more</script>` }),
    '<p title="&#60;script&#62;&#34;it&#39;s&#34; &#38; more&#60;/script&#62;">' +
      '&#60;script&#62;&#34;it&#39;s&#34; &#38; more&#60;/script&#62;</p>',
  )
  t.equal(escapeHtml(12), '12')
})

t.test('a value that looks like a tag is not one', async t => {
  const page = templates(t, { 'page.mustache': '{{a}}{{#list}}{{.}}{{/list}}' })
  t.equal(page.render('page', { a: '{{b}}', list: ['{{{b}}}'] }), '{{b}}{{{b}}}')
})

t.test('unescaped tags are refused when templates are read', async t => {
  for (const text of ['{{{raw}}}', '{{&raw}}', '{{#list}}{{& raw}}{{/list}}']) {
    t.throws(() => templates(t, { 'page.mustache': text }), /"page" inserts "raw" without escaping/)
  }
})

t.test('a name the view does not have is an error, a value that is undefined is not', async t => {
  const page = templates(t, {
    'page.mustache': '{{#list}}{{name}}{{outer}}{{/list}}{{deep.down}}',
  })
  const view = { list: [{ name: 'n' }], outer: undefined, deep: { down: 'd' } }
  t.equal(page.render('page', view), 'nd')
  t.throws(() => page.render('page', { ...view, deep: {} }), /no "deep.down"/)
  t.throws(() => page.render('page', { ...view, list: [{}] }), /no "name"/)
  t.throws(() => page.render('page', { list: [], outer: '' }), /no "deep.down"/)
})

t.test('what objects inherit is not a name of the view', async t => {
  const page = templates(t, { 'page.mustache': '{{constructor}}' })
  t.throws(() => page.render('page', {}), /no "constructor"/)
})

t.test('templates include one another, and only what is there', async t => {
  const page = templates(t, { 'page.mustache': '<b>{{> inner}}</b>', 'inner.mustache': '{{x}}' })
  t.equal(page.render('page', { x: '<' }), '<b>&#60;</b>')
  t.throws(
    () => templates(t, { 'page.mustache': '{{#a}}{{> lost}}{{/a}}' }),
    /"page" includes "lost"/,
  )
})

t.test('broken and missing templates are named', async t => {
  t.throws(() => templates(t, { 'page.mustache': '{{#open}}' }), /Unclosed section/)
  t.throws(() => templates(t, { 'page.mustache': 'x' }).render('other', {}), /no template "other"/)
  t.throws(() => Templates.read('/nowhere/at/all'), { code: 'ENOENT' })
})

t.test('templates are read once: later changes do not matter', async t => {
  const directory = t.testdir({ 'page.mustache': 'before' })
  const page = Templates.read(directory)
  t.testdir({ 'page.mustache': 'after' })
  t.equal(page.render('page', {}), 'before')
})
