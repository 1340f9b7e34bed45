import t from 'tap'
import { compareVersions } from '../../../lib/cache/archive/version.ts'

t.test('versions stand in the order of Debian Policy 5.6.12', async t => {
  // Each is older than the next.
  const ascending = [
    '0~~',
    '0~~a',
    '0~',
    '0',
    '0+b1',
    '1.0~rc1-1',
    '1.0-0.1',
    '1.0-1',
    '1.0-1+deb12u1',
    '1.0-1.1',
    '1.0a-1',
    '1.0+dfsg-1',
    '1.0.1-1',
    '1.9-1',
    '1.10-1',
    '2.0-1~bpo12+1',
    '2.0-1',
    '2.0-1ubuntu2',
    '2.0-1ubuntu10',
    '20991231',
    '99999999999999999998',
    '99999999999999999999',
    '1:0.1',
    '1:1-2-3',
    '1:1-3-1',
    '2:0',
    '10:0',
  ]
  for (const [i, version] of ascending.entries()) {
    for (const [j, other] of ascending.entries()) {
      t.equal(Math.sign(compareVersions(version, other)), Math.sign(i - j), `${version} ${other}`)
    }
  }
})

t.test('equal versions are written in several ways', async t => {
  for (const [a = '', b = ''] of [
    ['1.0', '1.0'],
    ['1.0', '1.0-0'],
    ['0:1.0', '1.0'],
    ['1.00', '1.0'],
    ['1.01-001', '1.1-1'],
  ]) {
    t.equal(compareVersions(a, b), 0, `${a} ${b}`)
  }
})
