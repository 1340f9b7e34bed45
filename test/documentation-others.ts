/**
 * The files of other programs that the documents show: each is read as its program reads it, and the line for apt in each of them by apt itself.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseDocument } from 'yaml'
import { parseAuthConf } from '../lib/cache/fetch/origin-credentials.ts'
import { isRecord } from '../lib/json.ts'
import { packageRoot } from '../lib/package.ts'
import { type Block, blocksIn, commandsOf } from './fixtures/documents/blocks.ts'
import { attempt, command, lacking } from './fixtures/process/command.ts'

const blocks = blocksIn(packageRoot()).filter(({ mark }) => mark === undefined)
const inLanguage = (language: string) => blocks.filter(block => block.language === language)
const placeOf = ({ path, line }: Block) => `${path}:${line}`

/** The YAML of a block; throws what is wrong with it. */
function yamlOf(block: Block): unknown {
  const document = parseDocument(block.text)
  if (document.errors.length > 0) throw new Error(`${placeOf(block)}: ${document.errors}`)
  return document.toJS()
}

/** What apt reads of lines for its configuration. */
async function proxyOf(t: Test, lines: string): Promise<string> {
  const file = join(t.testdir(), 'apt.conf')
  await writeFile(file, lines)
  const { stdout, stderr } = await attempt('apt-config', [
    'dump',
    '-c',
    file,
    '--format',
    '%v',
    'Acquire::http::Proxy',
  ])
  return `${stdout}${stderr}`
}

/** Texts of a tree, from those keys alone. */
function textsUnder(key: string, value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(one => textsUnder(key, one))
  if (!isRecord(value)) return []
  const own = typeof value[key] === 'string' ? [value[key]] : []
  return [...own, ...Object.values(value).flatMap(one => textsUnder(key, one))]
}

/** A script: its syntax, and what it writes for apt. */
async function checkScript(t: Test, script: string, place: string): Promise<void> {
  const { code, stderr } = await attempt('sh', ['-n'], { input: script })
  t.equal(code, 0, `${place}: ${stderr}`)
  for (const words of commandsOf(script)) {
    const line = words.find(word => word.startsWith('Acquire::'))
    if (words.includes('echo') && line !== undefined) {
      t.match(await proxyOf(t, line), 'http://proxy.example.org:3142', place)
    }
  }
}

const skip = lacking('apt-config')

t.test('lines for apt', { skip }, async t => {
  const alone = inLanguage('apt').filter(({ text }) => text.startsWith('Acquire::'))
  t.ok(alone.length > 0)
  for (const block of alone) {
    t.match(await proxyOf(t, block.text), 'http://proxy.example.org:3142', placeOf(block))
  }
})

t.test('files of credentials', async t => {
  for (const block of inLanguage('auth')) {
    t.match(parseAuthConf(block.text), { lines: [{}] }, placeOf(block))
  }
})

t.test('Dockerfiles: the instructions, and the scripts of RUN', { skip }, async t => {
  const known = /^(?:FROM|RUN|COPY|ENV|ARG|USER|WORKDIR|CMD|ENTRYPOINT) /
  for (const block of inLanguage('dockerfile')) {
    const lines = block.text.replaceAll('\\\n', ' ').split('\n')
    for (const line of lines.filter(line => line !== '' && !line.startsWith('#'))) {
      t.match(line, known, placeOf(block))
      const [, script] = /^RUN ((?:--mount=\S+ +)*.*)$/.exec(line) ?? []
      if (script !== undefined)
        await checkScript(t, script.replace(/^(?:--\S+ +)*/, ''), placeOf(block))
    }
  }
})

t.test('TOML', { skip: skip || lacking('python3') }, async t => {
  const program = 'import json, sys, tomllib; print(json.dumps(tomllib.loads(sys.stdin.read())))'
  for (const block of inLanguage('toml')) {
    const read: unknown = JSON.parse(
      (await command('python3', ['-c', program], { input: block.text })).toString(),
    )
    const scripts = textsUnder('pre_build_script', read)
    t.equal(scripts.length, 1, placeOf(block))
    for (const script of scripts) await checkScript(t, script, placeOf(block))
  }
})

t.test('workflows: the scripts', { skip }, async t => {
  for (const block of inLanguage('yaml github')) {
    const scripts = textsUnder('run', yamlOf(block))
    t.ok(scripts.length > 0)
    for (const script of scripts) await checkScript(t, script, placeOf(block))
  }
})

t.test('playbooks', { skip }, async t => {
  for (const block of inLanguage('yaml ansible')) {
    const plays = yamlOf(block)
    if (!Array.isArray(plays)) throw new Error(placeOf(block))
    for (const play of plays) {
      t.strictSame(Object.keys(play).sort(), ['become', 'hosts', 'tasks'])
      for (const line of textsUnder('content', play)) {
        t.match(await proxyOf(t, line), 'http://proxy.example.org:3142', placeOf(block))
      }
    }
    if (lacking('ansible-playbook') !== false) continue
    const file = join(t.testdir(), 'play.yaml')
    await writeFile(file, block.text)
    const { code, stderr } = await attempt('ansible-playbook', ['--syntax-check', file])
    t.equal(code, 0, stderr)
  }
})

t.test('cloud-init: the keys are those of its reference', async t => {
  const known: Readonly<Record<string, readonly string[]>> = {
    apt: ['http_proxy', 'https_proxy', 'conf'],
    autoinstall: ['version', 'proxy'],
  }
  for (const block of inLanguage('yaml cloud-init')) {
    t.match(block.text, /^#cloud-config\n/, placeOf(block))
    const found = yamlOf(block)
    for (const [part, settings] of Object.entries(isRecord(found) ? found : {})) {
      for (const key of Object.keys(Object(settings)))
        t.ok(known[part]?.includes(key), `${part}.${key}`)
    }
  }
})

t.test(
  'Traefik: the keys are those of its reference, and routers lead to services that exist',
  async t => {
    const known = ['entryPoints', 'providers', 'http', 'tls']
    for (const block of inLanguage('yaml traefik')) {
      const found = yamlOf(block)
      if (!isRecord(found)) throw new Error(placeOf(block))
      for (const key of Object.keys(found)) t.ok(known.includes(key), `${placeOf(block)}: ${key}`)
      const { http } = found
      if (!isRecord(http)) continue
      const { routers = {}, services = {} } = http
      for (const service of textsUnder('service', routers)) {
        t.ok(Object.hasOwn(Object(services), service), `${placeOf(block)}: ${service}`)
      }
    }
  },
)

t.test('compose: services use networks and volumes that exist', async t => {
  for (const block of inLanguage('yaml compose')) {
    const found = yamlOf(block)
    if (!isRecord(found)) throw new Error(placeOf(block))
    t.strictSame(Object.keys(found), ['services', 'networks', 'volumes'])
    for (const service of Object.values(Object(found['services']))) {
      const { networks = [], volumes = [] }: { networks?: string[]; volumes?: unknown[] } =
        Object(service)
      for (const name of networks) t.ok(Object.hasOwn(Object(found['networks']), name), name)
      for (const volume of volumes) {
        if (typeof volume !== 'string') continue
        const [name = ''] = volume.split(':')
        t.ok(Object.hasOwn(Object(found['volumes']), name), name)
      }
    }
  }
})

t.test('preseeding', { skip: lacking('debconf-set-selections') }, async t => {
  for (const block of inLanguage('preseed')) {
    const checked = await attempt('debconf-set-selections', ['--checkonly'], { input: block.text })
    t.strictSame([checked.code, checked.stderr], [0, ''], placeOf(block))
  }
})
