/**
 * The socket for checks that the service manager holds: checks wait there while the instance restarts.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import {
  authproxyProgram,
  startable,
  writeSettings,
} from '../../fixtures/gateway/authproxy-process.ts'
import { bytesOf, checkOf } from '../../fixtures/gateway/checks.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { attempt, lacking } from '../../fixtures/process/command.ts'
import { SocketActivated } from '../../fixtures/process/socket-activated.ts'

for (const kind of ['in the file system', 'with a port']) {
  t.test(
    `a socket ${kind}: no check is refused over a restart`,
    { skip: lacking('perl') },
    async t => {
      const { directory, settings } = await startable(t)
      const file = join(directory, 'app.yaml')
      const path = kind === 'with a port' ? '' : join(directory, 'checks.sock')
      await writeSettings(file, {
        ...settings,
        forwardAuth: {
          // A service that listened by itself would be found elsewhere.
          listenAddress: `unix:${join(directory, 'own.sock')}`,
          ...{ edge: 'nginx', trustedProxies: ['127.0.0.1'] },
        },
      })
      const program = [authproxyProgram, 'serve', '--config', file]
      const held = await SocketActivated.start(process.execPath, program, { name: 'checks', path })
      t.teardown(() => held.stop())
      const ask = async (target: string) => {
        const client = await (path === ''
          ? RawClient.connect(t, held.port)
          : RawClient.connectTo(t, path))
        await client.write(bytesOf(checkOf('nginx', { target })))
        const { status } = await client.response({ to: 'GET' })
        client.end()
        return status
      }
      t.equal(await ask('/open/'), 200, 'asked before the instance listens')
      t.equal(await ask('/closed'), 401)
      const status = await attempt(process.execPath, [authproxyProgram, 'status', '--config', file])
      const place = path === '' ? `127.0.0.1:${held.port}` : `unix:${path}`
      t.match(status.stdout.toString(), `checks ${place}`)
      for (const _ of [1, 2]) {
        const next = held.restart()
        t.equal(await next, '0')
        t.same(await Promise.all([ask('/open/'), ask('/closed')]), [200, 401])
      }
      if (path !== '') t.ok((await stat(path)).isSocket(), 'a process leaves the file there')
      await t.rejects(stat(join(directory, 'own.sock')))
    },
  )
}
