/**
 * Turns of phrase that readers had to read twice. They are refused in what people read: documents, manuals, pages, help texts and
 * messages. Comments of the code and the CHANGELOG are not checked, nor is what is marked as code.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../lib/package.ts'

/** A turn of phrase: what finds it, why it is refused, and what to write. */
interface Turn {
  readonly turn: string
  readonly because: string
  readonly rather: string
}

/** The list. A turn is matched as whole words, without regard to capitals. */
const turns: readonly Turn[] = [
  {
    turn: '(?:is|are|was|were|be) none',
    because: '“is none” is German; the reader looks for what there is none of',
    rather: 'is not one; is not a …; is invalid; there is no …',
  },
  {
    turn: 'such (?:a one|one|ones)',
    because: 'the reader has to look back for the noun',
    rather: 'name it again',
  },
  {
    turn: 'whoever',
    because: 'no engineer says it',
    rather: 'a client that; a user who; anyone who',
  },
  {
    turn: '(?:is|are|was|were|be|been) told',
    because: 'it hides who tells, and how',
    rather: 'learns; sees; receives; the log says',
  },
  {
    turn: 'takes? (?:it |them )?back',
    because: 'it reads as “returns”',
    rather: 'undoes; restores; removes',
  },
  { turn: 'lies? (?:in|on)', because: 'files and dates do not lie', rather: 'is in; is on' },
  {
    turn: 'of which',
    because: 'two thoughts in one sentence',
    rather: 'a second sentence; whose; and … of them',
  },
  {
    turn: 'the one (?:of )?before',
    because: 'before what?',
    rather: 'the earlier one; the old …; the previous …',
  },
  { turn: 'of before', because: 'German “von vorher”', rather: 'earlier; old; previous' },
  { turn: 'in (?:the )?place of', because: 'an old turn', rather: 'instead of' },
  { turn: 'anew', because: 'an old word, and search does not find it', rather: 'again; re-…' },
  { turn: 'mend(?:s|ed|ing)?', because: 'an old word, and search does not find it', rather: 'fix' },
  { turn: 'by way of', because: 'an old turn', rather: 'through; by; with' },
  { turn: 'likelier', because: 'an old word', rather: 'more likely; probably' },
  { turn: 'of late', because: 'an old turn', rather: 'recently' },
  { turn: 'bec[ao]mes? of', because: 'a riddle', rather: 'happens to; by outcome' },
  { turn: '(?:its|their) likes?', because: 'an old turn', rather: 'and the like; and similar' },
  {
    turn: 'no more(?! than| often| requests)',
    because: 'it reads as a number',
    rather: 'no longer; no further',
  },
  { turn: 'any more', because: 'spoken, and vague', rather: 'no longer' },
  { turn: 'but for', because: 'it reads as “but, for”', rather: 'except' },
  { turn: 'without an end', because: 'German “ohne Ende”', rather: 'for ever; hangs; endless' },
  {
    turn: 'stands? (?:in (?!front)|under |beside |behind |before |around |there\\b)',
    because: 'texts and settings do not stand',
    rather: 'is in; belongs under; is beside',
  },
  {
    turn: 'besides',
    because: 'it means both “also” and “except”',
    rather: 'in addition to; other than; also',
  },
  {
    turn: 'hence|thereby|thereof|therein|whence|till',
    because: 'an old word',
    rather: 'so; by this; of it; until',
  },
  { turn: 'dear', because: 'costs are not dear to engineers', rather: 'expensive; slow' },
  { turn: 'has the say', because: 'German “das Sagen haben”', rather: 'decides; is in force' },
  {
    turn: "somebody(?:’s|'s)?|nobody(?:’s|'s)",
    because: 'nobody in particular',
    rather: 'name who acts',
  },
  {
    turn: '(?<!there |nothing |0 )(?:is|are) no (?!longer|more|less|limit)\\p{L}+',
    because: 'German “ist kein”',
    rather: 'is not a …; is not an …',
  },
  {
    turn: '(?:forbids?|allows?|permits?) to [a-z]+',
    because: 'not English without an object',
    rather: 'forbids fetching it; allows clients to fetch it',
  },
  {
    turn: '(?:cannot|to) be had',
    because: 'an old turn',
    rather: 'cannot be fetched; is not available',
  },
  { turn: 'begins? so', because: 'so how?', rather: 'begins with …' },
  {
    turn: '(?:user|users|root|service|check|apt|proxy|edge|machine|host|group) alone',
    because: 'German “allein”; the reader thinks of “by itself”',
    rather: 'only the …; only for …',
  },
  {
    turn: 'capitals? (?:count|counts|make|makes)',
    because: 'the field has a word for it',
    rather: 'case-sensitive; upper case',
  },
  {
    turn: 'Most (?:bytes|connections|files|builds) (?:of|that|to|at)',
    because: '“most” is “nearly all”',
    rather: 'maximum number of',
  },
]

/** A sentence or a cell, and where it stands. */
interface Said {
  readonly path: string
  readonly text: string
}

/** What is refused in a text, each with its reason. */
function refusedIn({ path, text }: Said): readonly string[] {
  return turns.flatMap(({ turn, because, rather }) =>
    [...text.matchAll(new RegExp(`(?<![\\w-])(?:${turn})(?![\\w-])`, 'giu'))].map(
      ({ 0: found, index }) => {
        const around = text.slice(Math.max(0, index - 60), index + found.length + 40)
        return `${path}: “${found}” in “…${around}…”: ${because}. Rather: ${rather}`
      },
    ),
  )
}

const root = packageRoot()
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** Files below a folder whose paths match, relative to the root. */
function filesBelow(folder: string, pattern: RegExp): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name).slice(root.length + 1))
    .filter(path => pattern.test(path))
    .sort()
}

const joined = (text: string) => text.replace(/\s+/g, ' ')

/** A document without what is marked as code. */
function ofDocument(path: string): Said {
  const prose = read(path)
    .replace(/^ *```[\s\S]*?^ *```/gm, '')
    .replace(/`[^`\n]*`/g, '…')
    .replace(/[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}/g, '')
  return { path, text: joined(prose) }
}

/** A manual as it reads: the words of its lines and macros. Examples between .nf and .fi are left out. */
function ofManual(path: string): Said {
  const prose = read(path)
    .replace(/^\.nf\n[\s\S]*?^\.fi/gm, '')
    .replace(/^\.\\".*$|^\.(?:TH|so).*$/gm, '')
    .replace(/^\.[A-Z]{1,2} ?/gm, '')
    .replace(/\\f[BIRP]|\\&|"/g, '')
    .replaceAll('\\-', '-')
  return { path, text: joined(prose) }
}

/** A template as it reads: without tags, names and comments. */
function ofTemplate(path: string): Said {
  const prose = read(path)
    .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|<!--[\s\S]*?-->/gm, '')
    .replace(/<(script|style)\b[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]*>|\{\{[^}]*\}\}/g, ' ')
  return { path, text: joined(prose) }
}

/** The texts of a source that are sentences or parts of one: literals with at least two words, without what is put into them. */
function textsOf(path: string): readonly Said[] {
  // Comments first: an apostrophe or a quotation mark in one would begin a text.
  const source = read(path).replace(/^\s*\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
  const literals = source.matchAll(
    /\/\/.*|\/\*[\s\S]*?\*\/|'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g,
  )
  return [...literals]
    .map(([, single, double, template]) => single ?? double ?? template ?? '')
    .map(text =>
      joined(
        text
          .replace(/\$\{[^}]*(?:\}|$)/g, '…')
          .replace(/`[^`]*`/g, '…')
          .replaceAll('\\n', ' '),
      ),
    )
    .filter(text => /\p{L}{2,} \p{L}/u.test(text))
    .map(text => ({ path, text }))
}

const documents = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md'].concat(
  filesBelow('docs', /\.md$/),
  filesBelow('bench', /^bench\/(?!results)[^/]*\.md$/),
)

t.test('documents', async t => {
  t.ok(documents.length > 40, `${documents.length} documents`)
  for (const path of documents) t.strictSame(refusedIn(ofDocument(path)), [], path)
})

t.test('manuals', async t => {
  for (const path of filesBelow('man', /\.[58]$/)) t.strictSame(refusedIn(ofManual(path)), [], path)
})

t.test('pages, scripts for users, and examples', async t => {
  const paths = filesBelow('templates', /^(?!.*\/languages\/).*(?<!\.css|\.ico|\.svg)$/)
  t.ok(paths.length > 20, `${paths.length} templates`)
  for (const path of paths) t.strictSame(refusedIn(ofTemplate(path)), [], path)
})

t.test('help texts, settings and messages', async t => {
  const paths = ['lib', 'demo', 'bin'].flatMap(folder => filesBelow(folder, /\.ts$/))
  const said = paths.flatMap(textsOf)
  t.ok(said.length > 3000, `${said.length} texts`)
  for (const path of paths) {
    t.strictSame(said.filter(each => each.path === path).flatMap(refusedIn), [], path)
  }
})

t.test('the list refuses what it is for', async t => {
  const planted = [
    'An identity provider that speaks OIDC alone is none for it.',
    'The log names the file; without such a one nothing is written.',
    'Whoever has signed in may read the page.',
    'The application is told who asks.',
    'The script takes it back.',
    'The date lies in the future.',
    'It keeps ten files, of which the oldest goes first.',
    'Clients get the one before.',
    'The doctor says how to mend what it finds.',
    'Requests go by way of a parent.',
    'Names in the place of addresses are looked up anew.',
    'The file is served no more.',
    'This waits without an end.',
    'A file that is no archive is left out.',
    'The setting forbids to fetch it.',
    'The old index cannot be had.',
    'Paths that begin so pass.',
    'The edge alone can ask.',
    'In group names capitals count.',
    'Most bytes of the head of a request.',
  ]
  for (const text of planted) t.not(refusedIn({ path: 'planted', text }).length, 0, text)
  const fine =
    'A client waits no more than a second, and authproxy stands in front of the application.'
  t.strictSame(refusedIn({ path: 'planted', text: fine }), [])
})
