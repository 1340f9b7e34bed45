/**
 * Every command and every part of a configuration that the README, the documents and the manuals show is checked: YAML by the readers of
 * the programs, shell by the shell and by the tables of the command lines, others by their own parsers, or by a test that is named in
 * front of the block and runs it. The first test lists the blocks that nothing checks.
 */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { demo, devIdp } from '../demo/idp/arguments.ts'
import { access } from '../lib/auth/cli/access.ts'
import { authproxy } from '../lib/auth/cli/arguments.ts'
import { importing } from '../lib/auth/cli/import.ts'
import { sessions } from '../lib/auth/cli/sessions.ts'
import { configCheck as authproxyCheck } from '../lib/auth/config/loading/load-config.ts'
import { settings as authproxySettings } from '../lib/auth/config/settings.ts'
import { cachesvc } from '../lib/cache/cli/arguments.ts'
import { configCheck as cachesvcCheck } from '../lib/cache/config/loading/load-config.ts'
import { settings as cachesvcSettings } from '../lib/cache/config/settings.ts'
import { type Program, readArguments } from '../lib/command-line.ts'
import { decodeConfig } from '../lib/config/config-file.ts'
import { isRecord } from '../lib/json.ts'
import { packageRoot } from '../lib/package.ts'
import { messageLimits } from '../lib/saml/xml/message.ts'
import { parseXml } from '../lib/saml/xml/scan.ts'
import {
  type Block,
  blocksIn,
  type Command,
  commandsOf,
  documentsIn,
} from './fixtures/documents/blocks.ts'
import { attempt, lacking } from './fixtures/process/command.ts'
import { nginxConfiguration } from './fixtures/sso/nginx.ts'

t.setTimeout(300_000)

const root = packageRoot()
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const documents = documentsIn(root)
const blocks = blocksIn(root)
const placeOf = ({ path, line }: Block) => `${path}:${line}`
const inLanguage = (language: string) =>
  blocks.filter(block => block.language === language && block.mark === undefined)

const checked = new Set([
  ...['yaml', 'sh', 'json', 'js', 'python', 'php', 'xml', 'html', 'ini', 'nginx'],
  // By documentation-others.ts.
  ...[
    'apt',
    'auth',
    'dockerfile',
    'toml',
    'preseed',
    'yaml github',
    'yaml ansible',
    'yaml cloud-init',
    'yaml traefik',
    'yaml compose',
  ],
])

t.test('every block is checked, or says why not', async t => {
  t.ok(blocks.length > 180, `${blocks.length} blocks`)
  const unchecked = blocks.filter(
    ({ language, mark }) => !checked.has(language) && mark === undefined,
  )
  t.strictSame(unchecked.map(placeOf), [])
  const copied = blocks.filter(({ language, mark }) => language === 'sh' && mark !== undefined)
  t.strictSame(copied.map(placeOf), [], 'commands are always checked')
})

t.test('a test that is named in front of a block reads the document', async t => {
  for (const block of blocks) {
    if (typeof block.mark !== 'object') continue
    const { runBy } = block.mark
    t.ok(existsSync(join(root, runBy)), `${placeOf(block)}: ${runBy}`)
    t.ok(read(runBy).includes(block.path.replace(/^docs\//, '')), `${runBy} names ${block.path}`)
  }
})

/** What a person puts in the place of a word in capitals. */
const placeholders: ReadonlyArray<readonly [RegExp, string]> = [
  [/THE-64-DIGITS-OF-SHA256SUM/g, '0123456789abcdef'.repeat(4)],
]

/** What the readers say of blocks on purpose: in which document, and what. */
const expected: ReadonlyArray<readonly [path: RegExp, says: RegExp]> = [
  // The files of the reader's machine are not on this one.
  [/./, /there is no such file/],
  // Gitea and JupyterHub take account names alone.
  [/^docs\/authproxy-applications\.md$/, /name no header for the user/],
  // A file of Nextcloud.
  [/^docs\/authproxy-applications\.md$/, /such as \/status\.php/],
  // The secret is an example of its own.
  [
    /^(?:docs\/authproxy-configuration\.md|man\/authproxy\.yaml\.5)$/,
    /open to the network without a secret/,
  ],
  // The way to try it has everything on one machine.
  [/^docs\/forward-auth\.md$/, /metadata fetched without TLS/],
]

/** The least an instance needs, beside a part of a configuration that is shown alone. */
const least = {
  domain: 'app.example.org',
  idpMetadataURL: 'https://idp.example.org/metadata',
  proxy: { listenAddress: '127.0.0.1:8080', targetURL: 'http://127.0.0.1:3000' },
}

function recordIn(block: Block) {
  const text = placeholders.reduce((all, [from, to]) => all.replaceAll(from, to), block.text)
  return decodeConfig(text, placeOf(block), found =>
    isRecord(found)
      ? { ok: true, value: found, warnings: [] }
      : { ok: false, problems: [], warnings: [] },
  )
}

/** Whether settings of these names are there, those within groups as well. */
function isMade(found: Readonly<Record<string, unknown>>, of: unknown): boolean {
  const members = isRecord(of) && isRecord(of['members']) ? of['members'] : {}
  return Object.entries(found).every(([name, value]) => {
    const member = members[name]
    if (member === undefined) return false
    const isGroup = isRecord(member) && isRecord(member['members'])
    return !isGroup || !isRecord(value) || isMade(value, member)
  })
}

t.test('YAML is a configuration of one of the programs, and taken without a warning', async t => {
  const machine = {
    environment: {},
    root: true,
    home: '/root',
    systemCacheWritable: true,
    exists: () => true,
  }
  const [ofAuth, ofCache] = [authproxyCheck('app'), cachesvcCheck({}, machine)]
  let count = 0
  for (const block of inLanguage('yaml')) {
    const place = placeOf(block)
    const loaded = recordIn(block)
    if (!loaded.ok) {
      t.fail(`${place}: ${loaded.problems.join('; ')}`)
      continue
    }
    const found = loaded.value
    const auth = isMade(found, authproxySettings)
    if (!auth && !isMade(found, cachesvcSettings)) {
      t.fail(`${place}: ${Object.keys(found)} are settings of neither program`)
    }
    const own = 'idpMetadataFile' in found ? { idpMetadataURL: undefined } : {}
    const proxy = { ...least.proxy, ...(isRecord(found['proxy']) ? found['proxy'] : {}) }
    const answer = auth ? ofAuth({ ...least, ...own, ...found, proxy }) : ofCache(found)
    const remarks = [...(answer.ok ? [] : answer.problems), ...answer.warnings]
    const said = remarks.map(({ path, text }) => `${path.join('.')}: ${text}`)
    const unexpected = said.filter(
      text => !expected.some(([path, says]) => path.test(block.path) && says.test(text)),
    )
    t.strictSame(unexpected, [], place)
    count += 1
  }
  t.ok(count > 60, `${count} blocks`)
})

t.test('shell: the syntax', { skip: lacking('bash') }, async t => {
  for (const block of inLanguage('sh')) {
    const { code, stderr } = await attempt('bash', ['-n'], { input: block.text })
    t.equal(code, 0, `${placeOf(block)}: ${stderr}`)
  }
})

/** The programs of ours, with those of their commands that have a table of their own. */
const programs: Readonly<Record<string, readonly [Program, Readonly<Record<string, Program>>?]>> = {
  cachesvc: [cachesvc],
  authproxy: [authproxy, { access, import: importing, sessions, 'dev-idp': devIdp, demo }],
}

/** Programs of others: the documents name no further one by mistake. */
const known = new Set(
  (
    'apt apt-get cat cd chmod env chown cp curl docker echo gpg head install journalctl less mkdir nginx openssl php prometheus tr ' +
    'python3 rm sed sh systemctl systemd-sysusers tee /usr/lib/apt/apt-helper kubectl ansible-playbook ' +
    'mmdebstrap aws git cmp sha256sum jq ceph ceph-authtool ceph-mon ceph-osd radosgw-admin s3cmd ' +
    'printf tar'
  ).split(' '),
)

/** Options of ours in a command line; throws what is wrong with it. */
function readOwn(name: string, operands: readonly string[]): void {
  const [table, within = {}] = programs[name] ?? [cachesvc]
  const [first = '', ...rest] = operands
  const inner = Object.hasOwn(within, first) ? within[first] : undefined
  readArguments(inner ?? table, inner === undefined ? operands : rest, root)
}

function checkCommand(t: Test, whole: Command, place: string): void {
  const says = `${place}: ${whole.join(' ')}`
  const [word = '', ...operands] = withoutPrefix(whole)
  const name = word.split('/').at(-1) ?? ''
  const ofRepository = /^(\.\/|bin\/|test\/|bench\/|\.ci\/)/.test(word)
  if (ofRepository) {
    t.doesNotThrow(() => accessSync(join(root, word), constants.X_OK), says)
  }
  for (const operand of operands) {
    const own = /^(?:\$at|packaging)\/(?!\.)(.*)$/.exec(operand)?.[1]
    if (own !== undefined) t.ok(existsSync(join(root, 'packaging', own)), `${says}: ${operand}`)
  }
  if (Object.hasOwn(programs, name)) t.doesNotThrow(() => readOwn(name, operands), says)
  else if (name === 'npm') checkNpm(t, operands, says)
  else if (name === 'node') {
    const [file = ''] = operands.filter(operand => !operand.startsWith('-'))
    t.ok(existsSync(join(root, file.replace(/^dist\/(.*)\.js$/, '$1.ts'))), says)
  } else if (word !== '' && !ofRepository)
    t.ok(known.has(word), `${says}: ${word} is a known program`)
  // What runs within a container.
  const inside = word === 'kubectl' ? operands.indexOf('--') : -1
  if (inside !== -1) checkCommand(t, operands.slice(inside + 1), place)
  if (word === 'systemctl') {
    for (const unit of operands
      .slice(1)
      .filter(operand => /^(?:cachesvc|authproxy)/.test(operand))) {
      const file = /\.\w+$/.test(unit) ? unit : `${unit}.service`
      t.ok(existsSync(join(root, 'packaging', file.replace(/@[^.]*/, '@'))), `${says}: ${unit}`)
    }
    // systemctl names one unit after the other, and systemd opens no socket whose service runs.
    const socket = operands[0] === 'restart' && operands.find(unit => unit.endsWith('.socket'))
    if (socket) {
      const service = socket.replace('.socket', '.service').replace(/@[^.]*/, '@')
      t.match(read(`packaging/${service}`), `PartOf=${socket.replace(/@[^.]*/, '@%i')}`, says)
    }
  }
}

/** A command without sudo and what stands in front of a program. */
function withoutPrefix(words: Command): Command {
  const rest = [...words]
  if (/^[\w]+=/.test(rest[0] ?? '')) rest.shift()
  if (rest[0] === 'time') rest.shift()
  if (rest[0] !== 'sudo') return rest
  return rest[1] === '-u' ? rest.slice(3) : rest.slice(1)
}

function checkNpm(t: Test, operands: Command, says: string): void {
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(read('package.json'))
  const [verb = '', ...rest] = operands
  if (['ci', 'pack', 'install', 'root'].includes(verb)) return
  const [script = ''] = verb === 'run' ? rest.filter(word => !word.startsWith('-')) : [verb]
  t.ok(Object.hasOwn(scripts, script), says)
}

t.test('shell: the commands and their options exist', async t => {
  let count = 0
  for (const block of inLanguage('sh')) {
    for (const command of commandsOf(block.text)) {
      checkCommand(t, command, placeOf(block))
      count += 1
    }
  }
  t.ok(count > 90, `${count} commands`)
  const said = (document: string) =>
    inLanguage('sh')
      .filter(({ path }) => path === document)
      .flatMap(({ text }) => commandsOf(text).map(words => words.join(' ')))
  t.ok(said('README.md').includes('bin/cachesvc'), 'README says how to run it')
  t.ok(said('CONTRIBUTING.md').includes('npm test'), 'CONTRIBUTING says how to test it')
})

t.test('commands of ours within a sentence exist', async t => {
  let count = 0
  for (const path of documents) {
    const prose = read(path).replaceAll(/^ *```[\s\S]*?^ *```/gm, '')
    for (const [, text = ''] of prose.matchAll(
      /`((?:sudo (?:-u \w+ )?)?(?:bin\/)?(?:cachesvc|authproxy) [^`\n]+)`/g,
    )) {
      for (const command of commandsOf(text)) {
        // A command that is only named, without what it needs: `cachesvc export`.
        const [name = '', verb = '', ...rest] = withoutPrefix(command)
        const named = rest.length === 0 && Object.hasOwn(programs[name]?.[0].commands ?? {}, verb)
        if (!named) checkCommand(t, command, path)
        count += 1
      }
    }
  }
  t.ok(count > 50, `${count} commands`)
})

/** A document, or a document in each line. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
      .trim()
      .split(/\n(?=\{)/)
      .map(line => JSON.parse(line))
  }
}

t.test('nginx takes its configurations', { skip: lacking('nginx') }, async t => {
  for (const block of inLanguage('nginx')) {
    const directory = t.testdir()
    const file = join(directory, 'nginx.conf')
    const server = /^\s*server /m.test(block.text) ? block.text : `server {\n${block.text}}\n`
    // nginx opens its own files even for a look at its configuration.
    await writeFile(file, nginxConfiguration(directory, server))
    const { code, stderr } = await attempt('nginx', ['-t', '-e', 'stderr', '-c', file])
    t.equal(code, 0, `${placeOf(block)}: ${stderr}`)
  }
})

t.test('JSON, JavaScript, Python, PHP, XML and ini are well-formed', async t => {
  for (const block of inLanguage('ini')) {
    const odd = block.text
      .split('\n')
      .filter(line => !/^(?:|[;#].*|\[[\w. -]+\]|[\w.]+ ?=.*)$/.test(line))
    t.strictSame(odd, [], placeOf(block))
  }
  for (const block of inLanguage('json')) t.doesNotThrow(() => jsonIn(block.text), placeOf(block))
  for (const block of ['xml', 'html'].flatMap(inLanguage)) {
    const text = `<all xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">${block.text}</all>`
    t.match(parseXml(Buffer.from(text), messageLimits), { ok: true }, placeOf(block))
  }
  const parsers = [
    ['js', process.execPath, ['--input-type=module', '--check']],
    ['python', 'python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())']],
    ['php', 'php', ['-l']],
  ] as const
  for (const [language, program, argv] of parsers) {
    if (program !== process.execPath && lacking(program) !== false) continue
    for (const block of inLanguage(language)) {
      const input = language === 'php' ? `<?php\n${block.text}` : block.text
      const { code, stderr } = await attempt(program, argv, { input })
      t.equal(code, 0, `${placeOf(block)}: ${stderr}`)
    }
  }
})
