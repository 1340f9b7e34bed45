/**
 * What the documents say about the repository, compared with the repository: the folders, links, first comments and
 * reason words.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t from 'tap'
import { checkOutcomes, outcomes } from '../lib/auth/access/outcome.ts'
import { claims } from '../lib/auth/config/claims.ts'
import { failureTable } from '../lib/auth/pages/failures.ts'
import { packageRoot } from '../lib/package.ts'
import { failureList } from '../tools/failure-list.ts'
import { attempt, lacking } from './fixtures/process/command.ts'
import { Sources } from './fixtures/recorded/source-words.ts'

const root = packageRoot()
const notOurs = new Set(['node_modules', 'dist', '.git', '.tap', 'coverage'])
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** Files below a folder whose names end so, relative to the root. */
function files(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap(entry => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return notOurs.has(entry.name) ? [] : files(path, ending)
    return entry.name.endsWith(ending) ? [path] : []
  })
}

const documents = files('.', '.md')

t.test('the list of failures is what the source says', t => {
  const [path, content] = failureList()
  t.equal(read(path), content, `${path}: run \`npm run manual\``)
  t.end()
})

t.test('docs/design.md says what each folder of the source holds', t => {
  const [, table = ''] = read('docs/design.md').split('\n## Where to look\n')
  const halves = ['lib/http', 'lib/saml', 'lib/auth', 'lib/cache']
  const within = (folder: string) =>
    readdirSync(join(root, folder), { withFileTypes: true })
      .filter(entry => entry.isDirectory())
      .map(entry => join(folder, entry.name))
  const folders = ['lib', ...halves].flatMap(within).filter(path => !halves.includes(path))
  t.ok(folders.length > 30, `${folders.length} folders`)
  for (const path of folders) t.ok(table.includes(`\`${path}\``), path)
  const named = [...table.matchAll(/`(lib\/[^`]+)`/g)].map(([, path = '']) => path)
  for (const path of named) t.ok(existsSync(join(root, path)), path)
  t.end()
})

t.test('every source file begins with the comment that says what it owns', t => {
  for (const path of ['bin', 'demo', 'lib', 'tools'].flatMap(folder => files(folder, '.ts'))) {
    t.ok(/^\/\*\*\n \* \S/.test(read(path)), path)
  }
  t.end()
})

t.test('exported names can be searched for: none is a bare participle or adverb', t => {
  const irregular =
    /^(?:kept|told|left|taken|found|begun|gone|held|given|said|shown|known|written|over|behind|whole|right|wrong|within|instead|ahead|nearest|nearer|newer|past|recent|own)$/i
  const regular = /^[A-Za-z][a-z]+ed$/
  const isBare = (name: string) => irregular.test(name) || regular.test(name)
  const exported = /^export (?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm
  for (const path of ['bin', 'demo', 'lib', 'tools'].flatMap(folder => files(folder, '.ts'))) {
    const names = [...read(path).matchAll(exported)].map(([, name = '']) => name)
    t.strictSame(names.filter(isBare), [], path)
  }
  t.end()
})

t.test('every decision is numbered once and has its parts', t => {
  const decisions = files('docs/decisions', '.md').sort()
  decisions.forEach((path, index) => {
    t.match(path, new RegExp(`/${String(index + 1).padStart(4, '0')}-[a-z0-9-]+\\.md$`), path)
    t.match(read(path), /^# \S.*\n\n[\s\S]+\n## Why\n[\s\S]+\n## Price\n/, path)
  })
  t.end()
})

t.test('mandoc finds nothing wrong with the manuals', { skip: lacking('mandoc') }, async t => {
  const pages = readdirSync(join(root, 'man')).map(name => join(root, 'man', name))
  const { stdout, stderr } = await attempt('mandoc', ['-Tlint', '-Wwarning', ...pages])
  t.equal(`${stdout}${stderr}`, '')
})

t.test('relative links in documents lead somewhere', t => {
  for (const path of documents) {
    const prose = read(path).replace(/```[\s\S]*?```|`[^`\n]*`/g, '')
    for (const [, link = ''] of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? path : relative(root, join(root, dirname(path), file))
      t.ok(existsSync(join(root, target)), `${path}: ${link}`)
      if (anchor === undefined || !existsSync(join(root, target))) continue
      if (!statSync(join(root, target)).isFile()) continue
      t.ok(anchors(read(target)).includes(anchor), `${path}: ${link}`)
    }
  }
  t.end()
})

/** The anchors of a document's headings, as web views of repositories make them. */
function anchors(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

const sources = new Sources(root)
const union = sources.union.bind(sources)

t.test('every reason word is explained', t => {
  const outcomes = union('lib/cache/rfc9111/outcome.ts', 'Outcome')
  const words = [
    ...union('lib/cache/rfc9111/outcome.ts', 'HitReason'),
    ...union('lib/cache/rfc9111/outcome.ts', 'MissReason'),
    ...union('lib/cache/policy/policy.ts', 'DenyRule'),
    ...union('lib/cache/rfc9111/lookup.ts', 'RevalidateReason'),
    ...union('lib/http/proxy/tunnel.ts', 'TunnelEnd'),
    ...union('lib/cache/features/intercept/interceptor.ts', 'InterceptionEnd'),
  ]
  t.ok(outcomes.length > 4 && words.length > 25, `${words.length} words`)
  const life = read('docs/cachesvc-request.md')
  for (const word of [...outcomes, ...words])
    t.ok(life.includes(`\`${word}\``), `docs/cachesvc-request.md: ${word}`)

  const manual = read('man/cachesvc.8').replaceAll('\\-', '-')
  for (const word of outcomes) {
    t.ok(manual.includes(`.SS "Outcome ${word}"`), `man/cachesvc.8: ${word}`)
  }
  const asked = new Set(union('lib/cache/rfc9111/lookup.ts', 'RevalidateReason'))
  const failures = sources.codesOfCache()
  t.ok(failures.includes('ABANDONED'), 'the codes of fetch/failures.ts are found')
  // What the origin was asked for is explained elsewhere.
  for (const word of [...words, ...failures].filter(word => !asked.has(word))) {
    const tag = new RegExp(`^\\.(B|BR|IR) (.*[" ])?${word.replaceAll('.', '\\.')}([" ]|$)`, 'm')
    t.ok(tag.test(manual), `man/cachesvc.8: ${word}`)
  }
  t.end()
})

t.test('every reason word of authproxy is explained', t => {
  const life = read('docs/authproxy-request.md') + read('docs/authproxy-failures.md')
  // A word may be one of a family, such as `authn_…`.
  const explained = (word: string) => [
    word,
    ...[...word.matchAll(/_/g)].map(({ index }) => `${word.slice(0, index)}_…`),
    `${word}_…`,
  ]
  const words = [
    ...Object.entries(failureTable().codes)
      .filter(([, { category }]) => category === 'PROXY-ERROR')
      .map(([code]) => code),
    ...Object.keys(failureTable().notKept),
    ...union('lib/saml/response/check-assertion.ts', 'AssertionReason'),
    ...union('lib/http/proxy/tunnel.ts', 'TunnelEnd'),
  ]
  t.ok(words.length > 30, `${words.length} words`)
  for (const word of words) {
    t.ok(
      explained(word).some(text => life.includes(`\`${text}\``)),
      word,
    )
  }
  t.end()
})

t.test('every outcome of a request to authproxy is explained and counted', t => {
  for (const path of [...files('lib/auth', '.ts'), ...files('lib/http', '.ts')]) {
    const known: ReadonlySet<unknown> = /^lib\/auth\/forward-auth\//.test(path)
      ? new Set(checkOutcomes)
      : new Set(outcomes)
    for (const [, word = ''] of read(path).matchAll(/\boutcome: '([a-z-]+)'/g)) {
      t.ok(known.has(word), `${path}: ${word}`)
    }
  }
  const manual = section('man/authproxy.8', 'LOG')
  const reasons = ['PassReason', 'LoginReason', 'RefuseReason', 'CutReason'].flatMap(name =>
    union('lib/auth/access/outcome.ts', name),
  )
  t.ok(reasons.length > 14, `${reasons.length} reasons`)
  const tunnels = union('lib/http/proxy/tunnel.ts', 'TunnelEnd')
  for (const word of new Set<string>([...checkOutcomes, ...outcomes, ...reasons, ...tunnels])) {
    t.match(manual, wholeWord(word), `authproxy(8): ${word}`)
  }
  t.end()
})

/** A section of a manual, as a reader sees its words. */
function section(page: string, name: string): string {
  const [, after = ''] = read(page).split(`\n.SH ${name}\n`)
  const [own = ''] = after.split('\n.SH ')
  return own.replaceAll('\\-', '-')
}

function wholeWord(word: string): RegExp {
  return new RegExp(`(?<![\\w-])${word.replaceAll('.', '\\.')}(?![\\w-])`)
}

t.test('every cookie of authproxy is named where a person looks for it', t => {
  const names = new Set(sources.cookies().map(name => name.replace('.ID', '')))
  t.ok(names.size > 4, [...names].join())
  const [manual, guide] = [section('man/authproxy.8', 'COOKIES'), read('docs/authproxy.md')]
  for (const name of names) {
    t.match(manual, wholeWord(name), `authproxy(8): ${name}`)
    t.ok(guide.includes(name), `docs/authproxy.md: ${name}`)
  }
  t.end()
})

t.test('the guide to authproxy names every identity field', t => {
  const guide = read('docs/authproxy.md')
  for (const { field } of claims) t.match(guide, new RegExp(`-${field}\``), field)
  t.end()
})
