/**
 * The examples of the setup page, each tried with the program it is for, as far as the machine has it.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { endpoint } from '../../../../lib/cache/operations/endpoint.ts'
import { chapters, type Example, type Setting } from '../../../../lib/cache/operations/examples.ts'
import { operationsHandler } from '../../../../lib/cache/operations/routes.ts'
import { exampleArchives } from '../../../../lib/cache/operations/views/setup-view.ts'
import { Fields } from '../../../../lib/http/message/field.ts'
import {
  ask,
  fullConfig,
  pageOf,
  pattern,
  plainConfig,
  request,
  sources,
  textOf,
} from '../../../fixtures/cache/operations.ts'

const run = promisify(execFile)
const needs = (path: string) => (existsSync(path) ? false : `${path} is not installed`)

function setting(changes: Partial<Setting> & { host?: string; port?: number } = {}): Setting {
  const { host = 'cache.example.org', port = 3142, ...rest } = changes
  const config = { ...plainConfig, index: { ...plainConfig.index, hostnames: [host] } }
  return {
    here: endpoint(config, [], [{ address: undefined, port, secure: false }]),
    proxies: [],
    ports: [port],
    httpsMode: 'tunnel',
    archives: ['archive.example.org'],
    ...rest,
  }
}

const two = [
  { host: 'cache.example.org', port: 3142 },
  { host: '2001:db8::2', port: 8080 },
]

/** Every way in which examples can differ. */
const settings: readonly Setting[] = [
  setting(),
  setting({ httpsMode: 'intercept', port: 8090 }),
  setting({ httpsMode: 'disabled', host: '192.0.2.10' }),
  setting({ host: '2001:db8::10', archives: ['a.example.org', 'b.example.org'] }),
  setting({ host: 'cache' }),
  setting({ proxies: two }),
]

/** Examples for places of this kind, of which there has to be one. */
function examples(place: RegExp) {
  const found = settings.flatMap(chapters).flatMap(({ examples }) => {
    return examples.filter(example => place.test(example.place))
  })
  if (found.length === 0) throw new Error(`no example for ${place}`)
  return found
}

function example(id: string, of: Setting = setting()): Example {
  const found = chapters(of)
    .flatMap(chapter => chapter.examples)
    .find(one => one.id === id)
  if (found === undefined) throw new Error(`no example "${id}"`)
  return found
}

t.test('ids are unique, and every example names the service or needs not to', async t => {
  for (const of of settings.filter(({ here }) => here.host !== 'cache')) {
    const all = chapters(of)
    const ids = [...all.map(one => one.id), ...all.flatMap(one => one.examples.map(e => e.id))]
    t.equal(new Set(ids).size, ids.length)
    const silent = all.flatMap(one => one.examples).filter(one => !one.text.includes(of.here.host))
    t.strictSame(
      silent.map(one => one.id),
      ['detect-conf', 'https-source', 'deb822', 'auto-apt-proxy', 'look', 'explain'],
    )
  }
})

t.test('shell examples are valid for the plainest shell', async t => {
  for (const { id, text } of examples(/^Shell$|\/bin\//)) {
    const file = join(t.testdir(), 'example.sh')
    await writeFile(file, text)
    await t.resolves(run('/bin/sh', ['-n', file]), id)
    t.notMatch(text, /\[\[|function |<<<|\$'|&>/, 'no bashisms')
  }
})

t.test('YAML examples say what they mean to say', async t => {
  for (const of of settings) {
    const line = `Acquire::http::Proxy "${of.here.url}";`
    const gitlab = parse(example('gitlab', of).text)
    t.equal(
      gitlab.default.before_script[0].trimEnd(),
      `echo '${line}' > /etc/apt/apt.conf.d/30cachesvc\napt-get update`,
    )
    const github = parse(example('github', of).text)
    t.match(github.jobs.build.steps[0].run, line)
    t.equal(github.on, 'push')
    const cloud = parse(example('cloud-init', of).text)
    t.strictSame(cloud, { apt: { http_proxy: of.here.url, https_proxy: 'DIRECT' } })
    t.match(example('cloud-init', of).text, /^#cloud-config\n/)
    const [play] = parse(example('ansible', of).text)
    t.match(play.tasks[0]['ansible.builtin.copy'], { content: line, mode: '0644' })
    const [map, pod] = parseAllDocuments(example('kubernetes', of).text).map(one => one.toJS())
    t.strictSame(map.data, { '30cachesvc': `${line}\n` })
    t.equal(pod.spec.volumes[0].configMap.name, map.metadata.name)
  }
})

t.test('shell lines inside other files are valid too', async t => {
  const lines = settings.flatMap(of => [
    parse(example('gitlab', of).text).default.before_script[0],
    parse(example('github', of).text).jobs.build.steps[0].run,
    example('dockerfile', of).text.replace(/^[\s\S]*\nRUN /, ''),
  ])
  for (const line of lines) await t.resolves(run('/bin/sh', ['-n', '-c', line]))
})

t.test('apt understands the apt.conf examples', { skip: needs('/usr/bin/apt-config') }, async t => {
  for (const of of settings) {
    const file = join(t.testdir(), 'apt.conf')
    await writeFile(file, example('apt-conf', of).text)
    const { stdout } = await run('/usr/bin/apt-config', ['-c', file, 'dump'])
    t.match(stdout, `Acquire::http::Proxy "${of.here.url}";`)
    t.match(stdout, 'Acquire::https::Proxy "DIRECT";')
    await writeFile(file, example('detect-conf', of).text)
    const detect = await run('/usr/bin/apt-config', ['-c', file, 'dump'])
    t.match(detect.stdout, 'Acquire::http::Proxy-Auto-Detect "/usr/local/bin/apt-proxy-detect";')
  }
})

t.test('apt understands the sources', { skip: needs('/usr/bin/apt-get') }, async t => {
  for (const { id, text } of examples(/sources\.list/)) {
    const deb822 = text.startsWith('Types:')
    const name = deb822 ? 'example.sources' : 'example.list'
    const directory = t.testdir({ lists: { partial: {} }, [name]: `${text}\n` })
    const options = [`Dir::Etc::sourcelist=${directory}/${name}`, 'Dir::Etc::sourceparts=-']
    const args = [...options, `Dir::State::lists=${directory}/lists`].flatMap(option => [
      '-o',
      option,
    ])
    const { stdout, stderr } = await run('/usr/bin/apt-get', [...args, 'update', '--print-uris'])
    t.equal(stderr, '', id)
    const uris = [...text.matchAll(/^(?:deb|URIs:) (\S+)/gm)].map(([, uri]) => uri)
    t.ok(uris.length > 0, id)
    for (const uri of uris) t.match(stdout, `'${uri}/dists/stable/InRelease'`)
  }
})

t.test('zone examples are SRV records with a name as their target', async t => {
  for (const { id, text } of examples(/^Zone|resolver/)) {
    for (const line of text.split('\n')) {
      t.match(line, /^[\w.-]+\. 3600 IN (SRV \d 0 \d+ [a-z][\w.-]*\.|A [\d.]+|AAAA [\da-f:]+)$/, id)
    }
  }
  t.equal(
    example('srv-proxy').text,
    '_apt_proxy._tcp.example.org. 3600 IN SRV 0 0 3142 cache.example.org.',
  )
  t.match(example('srv-proxy', setting({ host: '192.0.2.10' })).text, ' IN A 192.0.2.10\n')
  t.match(example('srv-proxy', setting({ host: '2001:db8::1' })).text, ' IN AAAA 2001:db8::1\n')
})

t.test(
  'several proxies: a record for each with its priority, in the order of the list',
  async t => {
    const { text } = example('srv-archive', setting({ proxies: two }))
    t.strictSame(text.split('\n'), [
      'apt-cache2.example.org. 3600 IN AAAA 2001:db8::2',
      '_http._tcp.archive.example.org. 3600 IN SRV 0 0 3142 cache.example.org.',
      '_http._tcp.archive.example.org. 3600 IN SRV 1 0 8080 apt-cache2.example.org.',
    ])
    t.match(example('srv-proxy', setting({ proxies: two })).notes.join(), 'names only one proxy')
    const config = { ...plainConfig, index: { ...plainConfig.index, proxies: two } }
    const page = await pageOf(sources({ config }), '/_cachesvc/setup')
    t.match(page, 'any of these proxies: cache.example.org:3142, [2001:db8::2]:8080.')
    t.match(page, 'http://cache.example.org:3142 http://[2001:db8::2]:8080')
    const script = textOf(await ask(sources({ config }), '/_cachesvc/setup.sh'))
    t.match(script, "proxies='http://cache.example.org:3142 http://[2001:db8::2]:8080'")
  },
)

t.test('one archive record for each archive, five at most', async t => {
  const hosts = ['a', 'b', 'c', 'd', 'e', 'f'].map(label => `${label}.example.org`)
  const config = { ...plainConfig, domains: hosts.map(pattern) }
  const { text } = example('srv-archive', setting({ archives: exampleArchives(config) }))
  t.strictSame(
    text.split('\n').map(line => line.split(' ')[0]),
    hosts.slice(0, 5).map(host => `_http._tcp.${host}.`),
  )
})

t.test('archives in examples are hosts listed outright, or a placeholder', async t => {
  t.strictSame(exampleArchives(plainConfig), ['archive.example.org'])
  t.strictSame(exampleArchives(fullConfig), ['archive.example.org'])
  const domains = ['.sub.example.org', 'x.example.org:8080', 'plain.example.org'].map(pattern)
  t.strictSame(exampleArchives({ ...plainConfig, domains }), ['plain.example.org'])
})

t.test('what auto-apt-proxy can find depends on the port', async t => {
  t.match(example('auto-apt-proxy').notes[0], /default gateway/)
  t.match(example('auto-apt-proxy', setting({ port: 8090 })).notes[0], /needs the DNS record/)
})

t.test(
  'the page says where its host name comes from, and when other machines cannot reach it',
  async t => {
    t.match(await pageOf(sources(), '/_cachesvc/setup'), 'is the first in index.hostnames')
    const unnamed = { ...plainConfig, index: { ...plainConfig.index, hostnames: [] } }
    const page = await pageOf(sources({ config: unnamed }), '/_cachesvc/setup')
    t.match(
      page,
      'the first IPv4 address of this machine: you opened this page as cache.example.org,',
    )
    for (const path of ['/_cachesvc/setup', '/_cachesvc/setup.sh', '/_cachesvc/']) {
      const fields = Fields.of(['Host', '198.51.100.7:3142'])
      const two = sources({ config: unnamed, addresses: () => ['192.0.2.10', '198.51.100.7'] })
      const asked = { ...request('GET', path), fields }
      const text = textOf(await operationsHandler(two)(asked, path))
      t.match(text, 'http://198.51.100.7:3142')
      t.notMatch(text, '192.0.2.10')
      if (path === '/_cachesvc/setup') t.match(text, 'You opened this page as 198.51.100.7')
    }
    const alone = sources({
      config: unnamed,
      addresses: () => [],
      listeners: () => [{ address: '127.0.0.1', port: 3142, secure: false }],
    })
    t.match(
      await pageOf(alone, '/_cachesvc/setup'),
      /listens at this address alone[\s\S]*other machines cannot reach/,
    )
  },
)

t.test('the detection script', { skip: needs('/usr/bin/perl') }, async t => {
  const script = async (
    t: Test,
    port: number,
    host = '127.0.0.1',
    more: readonly number[] = [],
  ) => {
    const file = join(t.testdir(), 'apt-proxy-detect')
    const others = more.map(port => ({ host, port }))
    const proxies = more.length === 0 ? [] : [{ host, port }, ...others]
    await writeFile(file, example('detect', setting({ host, port, proxies })).text)
    await chmod(file, 0o755)
    return file
  }
  const silent = async (t: Test): Promise<number> => {
    const server = createTcpServer(socket => t.teardown(() => socket.destroy()))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const address = server.address()
    return typeof address === 'object' ? (address?.port ?? 0) : 0
  }
  const answer = async (t: Test, server: Server) => {
    const port = await listen(t, server)
    const { stdout } = await run(await script(t, port), ['http://archive.example.org/'])
    return stdout.replace(String(port), 'PORT')
  }

  t.test('names the proxy when the service answers', async t => {
    const given = sources()
    const server = createServer((request, reply) => {
      void ask(given, request.url ?? '').then(response => {
        reply.writeHead(response.status, [...response.fields.flat])
        reply.end(response.content.kind === 'bytes' ? response.content.bytes : '')
      })
    })
    t.equal(await answer(t, server), 'http://127.0.0.1:PORT\n')
  })

  t.test('sends a request that a strict server accepts', async t => {
    let host: string | undefined
    const server = createServer({ requireHostHeader: true }, (request, reply) => {
      host = request.headers.host
      reply.end('{}')
    })
    t.equal(await answer(t, server), 'http://127.0.0.1:PORT\n')
    t.match(host, /^127\.0\.0\.1:\d+$/)
  })

  t.test('says DIRECT when the port is closed', async t => {
    const server = createServer()
    const port = await listen(t, server)
    server.close()
    const { stdout } = await run(await script(t, port), ['http://archive.example.org/'])
    t.equal(stdout, 'DIRECT\n')
  })

  t.test('says DIRECT when something else answers there', async t => {
    const server = createServer((_, reply) => reply.writeHead(404).end('<h1>Router</h1>'))
    t.equal(await answer(t, server), 'DIRECT\n')
  })

  t.test('says DIRECT when nothing is answered within a second', async t => {
    const port = await silent(t)
    const started = performance.now()
    const { stdout } = await run(await script(t, port))
    t.equal(stdout, 'DIRECT\n')
    t.ok(performance.now() - started < 60_000)
  })

  t.test('names the first of several that answers and allows the machine', async t => {
    const server = (status: number) => createServer((_, reply) => reply.writeHead(status).end())
    const [hung, refusing, good, other] = [
      await silent(t),
      await listen(t, server(403)),
      await listen(t, server(200)),
      await listen(t, server(200)),
    ]
    const found = async (...[first = 0, ...more]: readonly number[]) =>
      (await run(await script(t, first, '127.0.0.1', more))).stdout
    const named = (port: number) => `http://127.0.0.1:${port}\n`
    t.equal(await found(hung, refusing, good, other), named(good))
    t.equal(await found(1, other, good), named(other), 'the order is that of the list')
    t.equal(await found(hung, refusing, 1), 'DIRECT\n')
  })

  t.test('the log has a line when none answers, and none when one does', async t => {
    const directory = t.testdir({ logger: `#!/bin/sh\necho "$@" >>"\${0%/*}/log"\n` })
    await chmod(join(directory, 'logger'), 0o755)
    const good = await listen(
      t,
      createServer((_, reply) => reply.end()),
    )
    const { PATH = '' } = process.env
    for (const more of [[good], [2]]) {
      const file = join(directory, 'detect')
      const proxies = [1, ...more].map(port => ({ host: '127.0.0.1', port }))
      await writeFile(file, example('detect', setting({ proxies })).text)
      await run('/bin/sh', [file], { env: { PATH: `${directory}:${PATH}` } })
    }
    t.equal(
      await readFile(join(directory, 'log'), 'utf8'),
      '-t apt-proxy-detect apt asks the archives directly: none of these proxies answers and allows this machine: http://127.0.0.1:1 http://127.0.0.1:2\n',
    )
  })

  t.test('says DIRECT when the name does not exist', async t => {
    const { stdout } = await run(await script(t, 3142, 'cache.invalid'))
    t.equal(stdout, 'DIRECT\n')
  })

  const helper = '/usr/lib/apt/apt-helper'
  t.test('is what apt accepts as one', { skip: needs(helper) }, async t => {
    const server = createServer((_, reply) => reply.end('{}'))
    const port = await listen(t, server)
    const option = `Acquire::http::Proxy-Auto-Detect=${await script(t, port)}`
    const target = 'http://archive.example.org/'
    // As root apt asks the script as a user who may have no way into this directory.
    const options = ['-o', option, '-o', 'APT::Sandbox::User=root']
    const { stdout } = await run(helper, [...options, 'auto-detect-proxy', target])
    t.match(stdout, `Using proxy 'http://127.0.0.1:${port}' for URL '${target}'`)
  })
})

async function listen(t: Test, server: Server): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

t.test('what most people want stands open and first, the rest is folded', async t => {
  const page = await pageOf(sources(), '/_cachesvc/setup')
  const [open = '', ...folded] = page.split('<details')
  t.match(
    open,
    'echo &#39;Acquire::http::Proxy &#34;http://cache.example.org:3142&#34;;&#39; | sudo tee',
  )
  t.match(open, 'sudo sh setup.sh')
  t.match(open, 'docker build --build-arg')
  t.notMatch(open, 'cloud-config')
  t.ok(folded.length > 5)
  t.match(folded.join(), /<div id="images">[\s\S]*cloud-config/, 'a link leads into what is folded')
  const reading = await pageOf(sources({ httpsMode: 'intercept' }), '/_cachesvc/setup')
  const [certificate = ''] = reading.split('<details')
  t.match(certificate, 'update-ca-certificates', 'what has to come first is not folded')
})
