import t from 'tap'
import {
  defaultCacheDirectory,
  type Surroundings,
  surroundings,
} from '../../../lib/cache/config/config.ts'

const user: Surroundings = {
  environment: {},
  root: false,
  home: '/home/ann',
  systemCacheWritable: false,
}

t.test('the cache directory nobody names', t => {
  const cases: ReadonlyArray<readonly [string, Partial<Surroundings>, string]> = [
    ['an ordinary user', {}, '/home/ann/.cache/cachesvc'],
    ['with XDG_CACHE_HOME', { environment: { XDG_CACHE_HOME: '/c' } }, '/c/cachesvc'],
    ['with a relative one', { environment: { XDG_CACHE_HOME: 'c' } }, '/home/ann/.cache/cachesvc'],
    ['root', { root: true }, '/var/cache/cachesvc'],
    ['a service user', { systemCacheWritable: true }, '/var/cache/cachesvc'],
    ['a user without a home', { home: undefined }, '/var/cache/cachesvc'],
    ['the environment', { root: true, environment: { CACHESVC_CACHE_DIR: '/e' } }, '/e'],
    [
      'an empty environment',
      { environment: { CACHESVC_CACHE_DIR: '' } },
      '/home/ann/.cache/cachesvc',
    ],
  ]
  for (const [name, facts, expected] of cases) {
    t.equal(defaultCacheDirectory({ ...user, ...facts }), expected, name)
  }
  t.end()
})

t.test('the machine is asked without throwing', t => {
  const found = surroundings()
  t.equal(found.root, process.getuid?.() === 0)
  t.equal(typeof found.systemCacheWritable, 'boolean')
  t.end()
})
