import { join } from 'node:path'
import t from 'tap'
import type { UserEnvironment } from '../../../lib/cache/config/config.ts'
import { configCheck, loadConfig } from '../../../lib/cache/config/loading/load-config.ts'
import { decodeConfig } from '../../../lib/config/config-file.ts'

/** What files written for GoAPTCacher say in another way. */

const user: UserEnvironment = {
  ...{ environment: {}, root: false, home: '/home/ann', systemCacheWritable: false },
}

const load = (text: string) => decodeConfig(text, 'f.yaml', configCheck({}, user))

t.test('ports are numbers and ranges', t => {
  const file = 'ports: [80, 8000-8100, "9000 - 9001", 443-443]\nconnect_ports: [443]'
  const loaded = load(file)
  t.strictSame(loaded.ok && loaded.value.ports, [
    80,
    { first: 8000, last: 8100 },
    { first: 9000, last: 9001 },
    443,
  ])
  for (const [ports, problem] of [
    ['[8100-8000]', /ports\[0\]: found "8100-8000", .*; the smaller number comes first/],
    ['[0-80]', /expected a port from 1 to 65535, or a range such as 8000-8100/],
    ['[80-65536]', /expected a port/],
    ['[http]', /expected a port/],
  ] as const) {
    const refused = load(`ports: ${ports}`)
    t.match(refused.ok ? [] : refused.problems, [problem], ports)
  }
  t.end()
})

t.test(
  'relative paths count from the directory of the file, as GoAPTCacher’s users write them',
  async t => {
    const directory = t.testdir({
      'c.yaml': 'cache_directory: ./cache\nhttps: { cert: ca.crt, key: /etc/ca.key }\n',
    })
    const loaded = await loadConfig(join(directory, 'c.yaml'), {}, user)
    if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
    t.equal(loaded.value.cacheDirectory, join(directory, 'cache'))
    t.equal(loaded.value.https.cert, join(directory, 'ca.crt'))
    t.equal(loaded.value.https.key, '/etc/ca.key')
  },
)

t.test('the variable CONFIG is not read, and named when it looks like a configuration', async t => {
  const directory = t.testdir({ 'c.yaml': '' })
  const environment = { CONFIG: '/x/goaptcacher.yaml' }
  const named = await loadConfig(join(directory, 'c.yaml'), {}, { ...user, environment })
  t.strictSame(named.warnings, [], '--config is used')
  const { warnings } = await loadConfig(
    undefined,
    {},
    { ...user, environment: { CONFIG: 'g.yml' } },
  )
  t.match(warnings, [/^the variable CONFIG is not read; write CACHESVC_CONFIG=g\.yml or --config/])
  const other = await loadConfig(undefined, {}, { ...user, environment: { CONFIG: 'release' } })
  t.strictSame(other.warnings, [])
})
