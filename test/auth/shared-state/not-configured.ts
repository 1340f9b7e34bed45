/**
 * Without a shared store in the configuration nothing of it is loaded; with one it is, also while the store is away.
 */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { packageRoot } from '../../../lib/package.ts'

/** Modules whose names match, of those that the program has loaded when it is ready, or has told why it is not. */
function loaded(state: object): string {
  const script = `
    import { createRequire } from 'node:module'
    import { startGateway } from './dist/test/fixtures/gateway/gateway.js'
    const ends = []
    const gateway = await startGateway({ teardown: end => ends.unshift(end) }, { settings: ${JSON.stringify(state)} })
    const { cache } = createRequire(import.meta.url)
    const found = Object.keys(cache).filter(path => path.includes('@redis'))
    console.log(found.length === 0 ? 'nothing' : 'the client')
    for (const end of ends) await end()
    process.exit(0)`
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: packageRoot(),
    encoding: 'utf8',
  })
  return `${run.stdout}${run.status === 0 ? '' : run.stderr}`.trim()
}

t.test('the client is loaded where a store is configured alone', async t => {
  t.equal(loaded({}), 'nothing')
  t.equal(loaded({ state: { url: 'redis://127.0.0.1:9' } }), 'the client')
})
