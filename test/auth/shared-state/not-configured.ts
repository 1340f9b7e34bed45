/**
 * Without a shared store in the configuration nothing of it is loaded; with one it is, also while the store is away.
 */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { packageRoot } from '../../../lib/package.ts'

/** Whether the program has loaded the client of the store when it is ready. */
function loaded(state: object): string {
  const script = `
    import { Session } from 'node:inspector'
    import { startGateway } from './dist/test/fixtures/gateway/gateway.js'
    const ends = []
    const gateway = await startGateway({ teardown: end => ends.unshift(end) }, { settings: ${JSON.stringify(state)} })
    const session = new Session()
    session.connect()
    const found = []
    session.on('Debugger.scriptParsed', ({ params: { url } }) => found.push(url))
    session.post('Debugger.enable')
    console.log(found.some(url => url.endsWith('/shared-state/connection.js')) ? 'the client' : 'nothing')
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
