/**
 * apt's own integration tests that use a web server: directly, through a plain proxy, through squid, and through cachesvc.
 *
 *   apt-get source apt; apt-get build-dep apt        the source and what its build needs
 *   cmake -G Ninja -B build apt-2.6.1 && ninja -C build
 *   apt-get install stunnel4 lsof fakeroot faketime gdb squid
 *   test/real/apt-integration apt-2.6.1 build                       all tests, all subjects: two hours
 *   test/real/apt-integration apt-2.6.1 build none,cachesvc         these subjects: none, plain, squid, cachesvc
 *   test/real/apt-integration apt-2.6.1 build cachesvc test-pdiff-usage   these tests
 *
 * Each test has a fresh proxy. cachesvc passes redirects on, has every file confirmed, and believes it at once that a suite is gone
 * (`redirects: pass`, freshness 0, `suites.gone_after` 0), because the tests change files of the web server within a second, and count
 * its answers. The tests run in a copy of their directory, where the framework names the proxy to apt. A test passes when it ends with
 * 0. Its output, and the proxy's log, are below the directory that is named in the end.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import {
  chmod,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { ProxyProcess } from '../fixtures/cache/proxy-process.ts'

const subjects = ['none', 'plain', 'squid', 'cachesvc'] as const
type Subject = (typeof subjects)[number]

/** The longest of these tests needs two minutes on a busy machine. */
const longestTest = 600_000

const settings = {
  domains: ['localhost', '127.0.0.1', '0.0.0.0'],
  ports: ['1024-65535'],
  connect_ports: ['1024-65535'],
  redirects: 'pass',
  freshness: { index: '0s', other: '0s', floor: '0s', negative: '0s' },
  suites: { gone_after: '0s' },
}

interface Proxy {
  readonly url: string | undefined
  /** Ends it. Answers what it has logged. */
  end(): Promise<string>
}

const [source, build, chosen = subjects.join(','), ...names] = process.argv.slice(2)
if (source === undefined || build === undefined) {
  process.stderr.write('test/real/apt-integration SOURCE BUILD [SUBJECT,… [TEST…]]; see --help\n')
  process.exit(64)
}
const results = await mkdtemp(join(tmpdir(), 'apt-integration-'))
// The tests run parts of apt as another user.
await chmod(results, 0o755)
const tests = await testsOf(source, results)
const methods = await methodsOf(build, results)
const passed = new Map<Subject, Set<string>>()
for (const subject of subjects.filter(one => chosen.split(',').includes(one))) {
  const passing = new Set<string>()
  passed.set(subject, passing)
  await mkdir(join(results, subject))
  for (const test of names.length > 0 ? names : tests) {
    const proxy = await proxyOf(subject)
    const log = join(results, subject, test)
    const code = await run(test, proxy.url, `${log}.log`)
    await writeFile(`${log}.proxy`, await proxy.end())
    if (code === 0) passing.add(test)
    process.stdout.write(`${subject} ${test}: ${code === 0 ? 'passes' : `ends with ${code}`}\n`)
  }
}
for (const [subject, passing] of passed) process.stdout.write(`${subject}: ${passing.size} pass\n`)
process.stdout.write(`Output is in ${results}\n`)

/** Copies the tests, and has their framework name the proxy in APT_TEST_PROXY to apt. Answers those that use the web server. */
async function testsOf(from: string, to: string): Promise<readonly string[]> {
  const directory = join(to, 'integration')
  await cp(join(from, 'test/integration'), directory, { recursive: true, verbatimSymlinks: true })
  const framework = join(directory, 'framework')
  const text = await readFile(framework, 'utf8')
  const anchor = "\techo 'Acquire::Connect::AddrConfig"
  if (!text.includes(anchor)) throw new Error(`${framework} has changed: there is no ${anchor}`)
  const name = `\tif [ -n "$APT_TEST_PROXY" ]; then echo "Acquire::http::Proxy \\"$APT_TEST_PROXY\\";" > rootdir/etc/apt/apt.conf.d/00testproxy; fi\n`
  await writeFile(
    framework,
    text.replace(anchor, () => `${name}${anchor}`),
  )
  const found: string[] = []
  for (const file of (await readdir(directory)).sort()) {
    if (!file.startsWith('test-')) continue
    if (/webserver/.test(await readFile(join(directory, file), 'utf8'))) found.push(file)
  }
  return found
}

/** The methods of the build, with the names that only an installation gives them. */
async function methodsOf(from: string, to: string): Promise<string> {
  const directory = join(to, 'methods')
  await mkdir(directory)
  const names: Record<string, string> = { https: 'http' }
  for (const inner of ['http', 'https', 'ftp', 'file', 'copy']) names[`mirror+${inner}`] = 'mirror'
  for (const name of await readdir(join(from, 'methods'))) names[name] = name
  for (const [name, program] of Object.entries(names)) {
    await symlink(resolve(from, 'methods', program), join(directory, name))
  }
  return directory
}

/** Runs a test. Answers its exit code, or why it has none. */
async function run(test: string, proxy: string | undefined, log: string): Promise<number | string> {
  const output = openSync(log, 'w')
  try {
    const child = spawn(join(results, 'integration', test), [], {
      cwd: join(results, 'integration'),
      stdio: ['ignore', output, output],
      detached: true,
      env: {
        PATH: process.env['PATH'],
        MSGLEVEL: '3',
        APT_INTEGRATION_TESTS_SOURCE_DIR: resolve(source ?? ''),
        APT_INTEGRATION_TESTS_BUILD_DIR: resolve(build ?? ''),
        APT_INTEGRATION_TESTS_METHODS_DIR: methods,
        APT_TEST_PROXY: proxy ?? '',
      },
    })
    const { pid } = child
    const timer = setTimeout(() => pid !== undefined && process.kill(-pid, 'SIGTERM'), longestTest)
    const [code, signal] = await once(child, 'close')
    clearTimeout(timer)
    return code ?? signal
  } finally {
    closeSync(output)
  }
}

async function proxyOf(subject: Subject): Promise<Proxy> {
  if (subject === 'none') return { url: undefined, end: async () => '' }
  if (subject === 'plain') return plainProxy()
  const directory = await mkdtemp(join(tmpdir(), 'apt-integration-proxy-'))
  await chmod(directory, 0o755)
  const { domains, ...more } = settings
  const start = () => ProxyProcess.start({ directory, domains, settings: more, name: subject })
  // A busy machine may need more time than a start is given.
  const proxy = await start().catch(start).catch(start).catch(start)
  return {
    url: proxy.url,
    async end() {
      await proxy.stop()
      await rm(directory, { recursive: true, force: true })
      return proxy.output
    },
  }
}

/** A proxy that stores nothing and passes every request on, CONNECT too. */
async function plainProxy(): Promise<Proxy> {
  const server = createServer((from, to) => {
    if (!URL.canParse(from.url ?? '')) return void to.writeHead(400).end()
    const { hostname, port, pathname, search } = new URL(from.url ?? '')
    const asked = request({
      ...{ host: hostname, port: port || 80, path: `${pathname}${search}`, method: from.method },
      headers: { ...from.headers, connection: 'close' },
    })
    asked.once('response', answer => {
      to.writeHead(answer.statusCode ?? 502, answer.statusMessage, answer.headers)
      answer.on('error', () => to.destroy()).pipe(to)
    })
    asked.once('error', () => (to.headersSent ? to.destroy() : to.writeHead(503).end('no answer')))
    from.pipe(asked)
  })
  server.on('connect', ({ url }, near) => {
    const { hostname, port } = new URL(`http://${url}`)
    const far = connect(Number(port || 443), hostname, () => {
      near.write('HTTP/1.1 200 Connection established\r\n\r\n')
      far.pipe(near).pipe(far)
    })
    far.on('error', () => near.destroy())
    near.on('error', () => far.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async end() {
      server.closeAllConnections()
      server.close()
      return ''
    },
  }
}
