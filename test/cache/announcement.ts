import { join } from 'node:path'
import t from 'tap'
import { announce } from '../../lib/cache/announcement.ts'
import { packageRoot } from '../../lib/package.ts'
import { createMemoryLog } from '../fixtures/log/memory-log.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'

const notRoot = process.getuid?.() !== 0 && 'SKIPPED: a network of its own wants root'

const network = `ip link set lo up
ip link add here type veth peer name there
ip link set there up
ip address add 192.0.2.10/24 dev here
ip link set here up multicast on
ip route add 224.0.0.0/4 dev here
exec "$0" "$1"`

t.test(
  'a client of the network finds the proxy, and learns that it ends',
  {
    skip: lacking('ip', 'unshare') || notRoot,
  },
  async t => {
    const program = join(packageRoot(), 'dist/test/fixtures/cache/announcing.js')
    const args = ['--net', 'sh', '-ec', network, process.execPath, program]
    const { code, stdout, stderr } = await attempt('unshare', args, { deadline: 120_000 })
    t.equal(stderr, '')
    t.equal(code, 0)
    const [found = '', end] = stdout.toString().split('\n')
    t.match(JSON.parse(found), {
      name: /^cachesvc on ./,
      fqdn: /\._apt_proxy\._tcp\.local$/,
      port: 3142,
      addresses: ['192.0.2.10'],
    })
    t.equal(end, 'taken back')
  },
)

t.test('a listener of this machine alone is not announced', async t => {
  const log = createMemoryLog()
  const local = { address: '127.0.0.1', port: 3142, secure: false }
  t.equal(announce([local, { address: undefined, port: 3143, secure: true }], log), undefined)
  t.match(log.lines, [{ level: 'warn', message: /only for this machine/ }])
})
