/**
 * apt finds the proxy by itself: auto-apt-proxy in its old and new dialect, and proxy scripts of apt's own.
 */
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { fetchThrough, noLab, report, setUp } from '../fixtures/cache/lab.ts'
import { proxyName } from '../fixtures/cache/proxy-process.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'
import { isFree } from '../fixtures/process/ports.ts'

const announces = proxyName === 'cachesvc' || proxyName === 'apt-cacher-ng'
const skip = noLab || (!announces && `SKIPPED: ${proxyName} does not announce itself`)

t.setTimeout(600_000)

t.test('automatic detection', { skip }, async t => {
  const lab = await setUp(t, (await isFree(3142)) ? { port: 3142 } : {})
  const { port, url } = lab.proxy

  await t.test('GET / says 406 with the words old detectors look for', async t => {
    const answer = await fetchThrough(port, '/', { Host: `127.0.0.1:${port}`, Accept: 'text/*' })
    t.equal(answer.status, 406)
    t.match(answer.reason, /usage information/i)
  })

  await t.test('the new dialect: any 406 in what apt-helper prints', async t => {
    const apt = await lab.apt('helper', { proxy: 'DIRECT' })
    const options = ['-oDebug::acquire::http=1', '-oAcquire::Retries=0', 'download-file']
    const { output } = await apt.helper(...options, `${url}/`, join(apt.work, 'answer'))
    t.match(output, /HTTP.*406/)
    t.match(output, /406.*usage.information/i, 'and the old one')
  })

  const noScript =
    lacking('auto-apt-proxy') || (port !== 3142 && 'SKIPPED: port 3142 is taken on this machine')
  await t.test('the auto-apt-proxy of this machine', { skip: noScript }, async t => {
    const tmp = t.testdir()
    const result = await attempt('auto-apt-proxy', [], {
      env: { TMPDIR: tmp, AUTO_APT_PROXY_NO_CACHE: '1' },
    })
    t.equal(result.stdout.toString().trim(), url, { stderr: result.stderr })
  })

  await t.test('apt asks a script for its proxy', async t => {
    const script = join(t.testdir(), 'detect')
    await writeFile(script, `#!/bin/sh\necho ${url}\n`)
    await chmod(script, 0o755)
    const settings = { 'Acquire::http::Proxy-Auto-Detect': script, 'Debug::Acquire::http': 'true' }
    const apt = await lab.apt('script', { settings, proxy: '' })
    const update = await apt.update()
    t.strictSame([update.code, update.errors], [0, []], report(update))
    t.match(update.output, `GET ${lab.origin.url}/`, 'the request line shows a proxy was used')
  })
})
