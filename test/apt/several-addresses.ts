/**
 * A name with two addresses, of which the first accepts connections and stays silent: the real apt, direct and through the cache.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { noLab, report } from '../fixtures/cache/lab.ts'
import { peerUnderTest } from '../fixtures/cache/proxy-process.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'

const notRoot = process.getuid?.() !== 0 && 'SKIPPED: names of its own want root'
const skip = noLab || peerUnderTest || lacking('ip', 'unshare') || notRoot
const hosts = '::1 archive.test\n127.0.0.1 archive.test localhost\n'
const names = 'ip link set lo up; mount --bind "$0" /etc/hosts; exec "$1" "$2"'

t.setTimeout(600_000)

t.test('apt passes a silent address over after 30 s, the cache after three', { skip }, async t => {
  const file = join(t.testdir(), 'hosts')
  writeFileSync(file, hosts)
  const program = join(packageRoot(), 'dist/test/fixtures/archive/several-addresses.js')
  const args = ['--net', '--mount', 'sh', '-ec', names, file, process.execPath, program]
  const ran = await attempt('unshare', args, { deadline: 500_000 })
  const { stdout, stderr, code, seconds } = ran
  t.equal(code, 0, report({ output: stderr, seconds }))
  const { results } = JSON.parse(stdout.toString())
  const [direct, through, again] = results
  t.match(direct, { way: 'direct', code: 0, installed: 0 })
  t.match(through, { way: 'through', code: 0, warnings: [], installed: 0 })
  t.ok(through.seconds < direct.seconds, `${through.seconds} s, direct ${direct.seconds} s`)
  t.match(again, { way: 'again', code: 0, warnings: [], newer: true })
})
