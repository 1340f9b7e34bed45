import t from 'tap'
import { packageFile, packageNamed } from '../../../lib/cache/archive/package-file.ts'

const place = 'https://archive.example.org/pool/main/h/hello'

t.test('both readings of a name agree about its version, escaped or not', t => {
  for (const [file, name, version] of [
    ['hello_2.10-3_amd64.deb', 'hello_amd64.deb', '2.10-3'],
    ['hello_1:2.10-3_amd64.deb', 'hello_amd64.deb', '1:2.10-3'],
    ['hello_1%3a2.10-3_amd64.deb', 'hello_amd64.deb', '1:2.10-3'],
    // apt escapes the % of such a name.
    ['hello_1%253a2.10-3_amd64.deb', 'hello_amd64.deb', '1:2.10-3'],
    ['hello-dbgsym_2.10-3_amd64.ddeb', 'hello-dbgsym_amd64.ddeb', '2.10-3'],
    ['hello-di_2.10-3_all.udeb', 'hello-di_all.udeb', '2.10-3'],
    ['hello_2.10_x86_64.deb', 'hello_x86_64.deb', '2.10'],
  ] as const) {
    const key = `${place}/${file}`
    t.strictSame(packageFile(key), { name: `${place}/${name}`, version }, file)
    t.match(packageNamed(key), { version, directory: 'hello' }, file)
  }
  t.end()
})

t.test('a name without a version or an architecture is that of no version of a package', t => {
  for (const file of [
    'hello_latest_amd64.deb',
    'hello-2.10.deb',
    'hello_2.10.deb',
    'hello_2.10.dsc',
  ])
    t.equal(packageFile(`${place}/${file}`), undefined, file)
  t.equal(packageFile(`${place}/hello_2.10_amd64.deb?a=b`), undefined)
  t.end()
})
