import t from 'tap'
import {
  surroundings,
  type UserEnvironment,
  unnamedCacheDirectory,
} from '../../../lib/cache/config/config.ts'
import { config as configOf } from '../../fixtures/cache/cache-config.ts'

const system = '/var/cache/cachesvc'

const user: UserEnvironment = {
  environment: {},
  root: false,
  home: '/home/ann',
  systemCacheWritable: false,
}

t.test('the cache directory nobody names', t => {
  const cases: ReadonlyArray<readonly [string, Partial<UserEnvironment>, string]> = [
    ['an ordinary user', {}, '/home/ann/.cache/cachesvc'],
    ['with XDG_CACHE_HOME', { environment: { XDG_CACHE_HOME: '/c' } }, '/c/cachesvc'],
    ['with a relative one', { environment: { XDG_CACHE_HOME: 'c' } }, '/home/ann/.cache/cachesvc'],
    ['root', { root: true }, '/var/cache/cachesvc'],
    ['a service user', { systemCacheWritable: true }, '/var/cache/cachesvc'],
    ['a user without a home', { home: undefined }, '/var/cache/cachesvc'],
    ['a command beside the service', { exists: path => path === system }, system],
    ['a command with both', { exists: () => true }, '/home/ann/.cache/cachesvc'],
    ['a command with neither', { exists: () => false }, '/home/ann/.cache/cachesvc'],
  ]
  for (const [name, facts, expected] of cases) {
    t.equal(unnamedCacheDirectory({ ...user, ...facts }), expected, name)
  }
  const named = (directory: string) =>
    configOf('', {}, { ...user, root: true, environment: { CACHESVC_CACHE_DIR: directory } })
  t.equal(named('/e').cacheDirectory, '/e', 'the environment')
  t.equal(named('').cacheDirectory, system, 'an empty environment')
  t.end()
})

t.test('the machine is asked without throwing', t => {
  const found = surroundings({ serves: true })
  t.equal(found.root, process.getuid?.() === 0)
  t.equal(typeof found.systemCacheWritable, 'boolean')
  t.equal(found.exists, undefined)
  t.equal(surroundings({ serves: false }).exists?.('/'), true)
  t.end()
})
