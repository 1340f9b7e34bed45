import t from 'tap'
import { configCheck } from '../../lib/cache/config/loading/load-config.ts'
import { explain, explainedRequest, explanationText } from '../../lib/cache/operations/explain.ts'
import { compilePolicy } from '../../lib/cache/policy/policy.ts'
import { routeRules } from '../../lib/cache/policy/routing.ts'
import type { Entry } from '../../lib/cache/store/entry.ts'
import { decodeConfig } from '../../lib/config/config-file.ts'

const surroundings = { environment: {}, root: false, home: '/home/ann', systemCacheWritable: false }
const own = { names: new Set<string>(), addresses: new Set<string>(), ports: new Set([3142]) }
const text = `
domains: [new.example.org]
passthrough_domains: [old.example.org]
remap:
  - { from: old.example.org, to: new.example.org }
  - { from: new.example.org/far, to: far.example.org }
archives:
  - origins: [new.example.org/two, new.example.org/one, new.example.org:8080]`

const entry: Entry = {
  key: 'http://archive.example.org/x',
  fields: [],
  digest: '0'.repeat(64),
  size: 5,
  lastModified: 'Wed, 01 Jan 2025 00:00:00 GMT',
  stored: 0,
  validated: 0,
  initialAge: 0,
}

/** The findings about a URL; nothing is stored but the keys given. */
async function findings(url: string, more = '', stored: readonly string[] = []) {
  const found = await all(url, more, stored)
  return Object.fromEntries(found.map(({ question, answer }) => [question, answer]))
}

function rulesOf(more: string) {
  const loaded = decodeConfig(`${text}\n${more}`, 'f.yaml', configCheck({}, surroundings))
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  const config = loaded.value
  const policy = compilePolicy(config, own)
  return { config, policy, routes: routeRules(config), confinements: [] }
}

async function all(url: string, more: string, stored: readonly string[], as: Entry = entry) {
  const rules = rulesOf(more)
  const get = async (key: string) => (stored.includes(key) ? as : undefined)
  return explain({ url }, { rules: () => rules, store: { read: get }, now: 0 })
}

t.test(
  'of two admitted targets the stricter admission is told, as the pipeline takes it',
  async t => {
    t.match(await findings('http://old.example.org/debian/dists/stable/Release'), {
      'Routed by': 'remap[0], from old.example.org to new.example.org',
      'Routed to': 'http://new.example.org/debian/dists/stable/Release',
      'Admitted by': 'old.example.org (at any address)',
      Key: 'http://new.example.org/debian/dists/stable/Release',
      'A request now': 'is passed through without being stored (passthrough)',
    })
  },
)

t.test('what becomes of a request is told in one word, too', async t => {
  const offline = 'offline: true'
  const deb = 'http://new.example.org/pool/main/h/hello/hello_1_amd64.deb'
  for (const [url, fate, more, stored] of [
    [deb, 'hit', '', [deb]],
    [
      'http://new.example.org/dists/a/InRelease',
      'asks',
      '',
      ['http://new.example.org/dists/a/InRelease'],
    ],
    ['http://new.example.org/x', 'miss', '', []],
    ['http://old.example.org/x', 'miss', '', []],
    ['http://far.example.org/x', 'refused', '', []],
    ['http://new.example.org/x', 'failed', offline, []],
    ['https://new.example.org/x', 'tunnel', '', []],
    ['https://far.example.org/x', 'refused', '', []],
    ['ftp://new.example.org/x', 'refused', '', []],
  ] as const) {
    const [first] = await all(url, more, stored, { ...entry, validated: url === deb ? 1 : 0 })
    t.equal(first?.fate, fate, `${url} ${first?.answer}`)
  }
})

t.test('a target that is routed to a host of no list is refused', async t => {
  const found = await findings('new.example.org/far/x')
  t.match(found, { 'Routed to': 'http://far.example.org/x', 'Refused by': 'domains' })
  t.notOk(Object.hasOwn(found, 'Key'))
})

t.test('what is no file of an archive is told in a sentence', async t => {
  for (const [url, question, answer] of [
    ['http://new.example.org/../x', 'Asked for', /climbs above its root/],
    ['http://localhost:3142/_cachesvc/', 'Asked for', /a page of this proxy/],
    ['http://localhost:3142/x', 'Asked for', /names no host/],
    ['ftp://new.example.org/', 'Asked for', /./],
  ] as const) {
    const found = await findings(url)
    t.strictSame(Object.keys(found), [question], url)
    t.match(found[question], answer)
  }
})

t.test('where several origins have an archive, they are named', async t => {
  const found = await findings('http://new.example.org/one/x')
  t.match(found, {
    'Routed by': 'archives[0], from new.example.org/one to new.example.org/two',
    'When it fails': 'new.example.org, new.example.org:8080',
  })
})

t.test('a signature that is withheld, and why clients keep the Release file', async t => {
  const url = 'http://new.example.org/debian/dists/stable/Release.gpg'
  const updates = {
    refusal: (at: string) => (at.endsWith('/stable') ? 'its signature is bad' : undefined),
    governs: () => false,
    paused: () => undefined,
    withholdsSignature: () => true,
  }
  const store = { read: async () => undefined }
  const found = await explain({ url }, { rules: () => rulesOf(''), store, updates, now: 0 })
  t.equal(found.find(({ question }) => question === 'Kept')?.answer, 'its signature is bad')
  t.match(found[0]?.answer ?? '', /^is answered 404.+belongs to another Release file/)
})

t.test('the verdict comes first, for a refusal as well', async t => {
  const first = async (url: string) => Object.entries(await findings(url))[0]
  const stored = ['A request now', 'is fetched from the origin, streamed and stored (absent)']
  t.strictSame(await first('http://new.example.org/x'), stored)
  t.strictSame(await first('http://HTTPS///new.example.org/x'), stored)
  t.match(await first('http://other.example.org/x'), ['A request now', /^is refused\. .*`domains`/])
})

t.test('the verdict is printed as a sentence, and what follows as a table', async t => {
  const alone = explanationText([{ question: 'A request now', answer: 'is refused.' }])
  t.equal(alone.text, 'A request now is refused.\n')
  const { text } = explanationText(await all('http://new.example.org/x', '', []))
  t.match(text, /^A request now is fetched from the origin/)
  const columns = text
    .trim()
    .split('\n')
    .slice(1)
    .map(line => line.search(/(?<= {2})\S/))
  t.equal(new Set(columns).size, 1, 'the answers are one column')
})

t.test('an https URL that is not read here would be tunnelled, which is said', async t => {
  const url = 'https://new.example.org/debian/x'
  t.match(await findings(url), {
    'A request now':
      /^apt would tunnel it: .* stores nothing\. Write http:\/\/HTTPS\/\/\/new\.example\.org\/debian\/x /,
    'As http://HTTPS///': 'is fetched from the origin, streamed and stored (absent)',
  })
  const refused = { 'A request now': /^is refused\. A tunnel to .*`https\.prevent`/ }
  t.match(await findings(url, 'https: { prevent: true }'), refused)
  const listed = await findings(url, 'https: { refuse_domains: [new.example.org] }')
  t.match(listed, {
    'A request now': /^is refused\. A tunnel to .*`https\.refuse_domains`; remove /,
  })
  const ca = 'https: { intercept: true }'
  t.match(await findings(url, ca), { 'A request now': /^is fetched from the origin/ })
  const passed = await findings('https://old.example.org/x', ca)
  t.match(passed, { 'A request now': /^apt would tunnel it/ }, 'what is never stored is not read')
})

t.test('a tunnel that the client would not get is not promised', async t => {
  const rules = rulesOf('offline: true')
  const store = { read: async () => undefined }
  const first = async (client?: string) => {
    const asked = { url: 'https://new.example.org/x', ...(client !== undefined && { client }) }
    const [found] = await explain(asked, { rules: () => rules, store, now: 0 })
    return found
  }
  t.match(await first('203.0.113.9'), { fate: 'refused', because: 'clients' })
  const offline = { answer: /^is answered 504\. .*opens no tunnel/, fate: 'failed' }
  t.match(await first('127.0.0.1'), { ...offline, because: 'offline' })
  t.match(await first(), offline)
})

t.test('a Filename with an escape is explained as apt asks for it', async t => {
  const file = 'http://new.example.org/debian/pool/main/h/hello_1'
  const found = await findings(`${file}%3a2.0-1_amd64.deb`, '', [`${file}%253a2.0-1_amd64.deb`])
  t.match(found, { Key: `${file}%253a2.0-1_amd64.deb`, 'Read as': /apt escapes the %/ })
  t.match(found['A request now'], /whether the copy still holds/, 'it is stored')
  const none = await findings(`${file}%3a2.0-1_amd64.deb`)
  t.notOk(Object.hasOwn(none, 'Read as'))
  const asWritten = await findings(`${file}:2.0-1_amd64.deb`, '', [`${file}:2.0-1_amd64.deb`])
  t.notOk(Object.hasOwn(asWritten, 'Read as'))
})

t.test('the parent proxy by which a host is asked, or that there is none for it', async t => {
  const parent =
    'parent_proxy: { url: "http://ann:s3cret@proxy.example.org:3128", except: [new.example.org] }'
  const direct = await findings('http://new.example.org/debian/dists/stable/Release', parent)
  t.match(direct['Through'], 'parent_proxy.except')
  const by = await findings('http://old.example.org/x', `${parent.replace('new.', 'other.')}`)
  t.equal(by['Through'], 'the parent proxy proxy.example.org:3128')
  t.notMatch(JSON.stringify(by), 's3cret')
})

t.test('a client, its fields and HEAD are explained where they are given', async t => {
  const rules = rulesOf('clients: [192.0.2.0/24]')
  const url = 'http://new.example.org/tool'
  const told = async (asked: object) => {
    const request = explainedRequest({ of: url, ...asked })
    const [first] = await explain(request, {
      ...{ rules: () => rules, store: { read: () => undefined }, now: 0 },
    })
    return first?.because
  }
  t.equal(await told({}), 'absent', 'no client is meant')
  t.equal(await told({ client: '192.0.2.7' }), 'absent')
  t.equal(await told({ client: '198.51.100.7' }), 'clients')
  t.equal(await told({ method: 'HEAD' }), 'head')
  t.equal(await told({ fields: [['Cookie', 'a=b']] }), 'own-fields')
  t.equal(await told({ fields: [['Cache-Control', 'only-if-cached']] }), 'only-if-cached')
  t.equal(await told({ fields: [['Bad Name', 'x'], 7], client: 7 }), 'absent', 'not well-formed')
})

t.test('a word is told what a target looks like', async t => {
  for (const word of ['alpha', 'gcc-12', 'libstdc++6']) {
    const [first] = await all(word, '', [])
    t.match(first, { question: 'Asked for', fate: 'refused' })
    t.match(first?.answer, `cachesvc list ${word}`)
    t.match(first?.answer, /http:\/\/archive\.example\.org\//)
  }
  for (const target of ['new.example.org', 'new.example.org/x', 'localhost/x', 'localhost:80']) {
    const [first] = await all(target, '', [])
    t.not(first?.question, 'Asked for', target)
  }
})
