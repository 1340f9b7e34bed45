/**
 * Content that is plainly not the file asked for, by table.
 */
import t from 'tap'
import { classify, impostor, promisesNothing } from '../../../lib/cache/archive/path.ts'
import { Fields } from '../../../lib/http/message/field.ts'

const pool = '/debian/pool/main/h/hello'
const dists = '/debian/dists/stable'
const html = '<!DOCTYPE html>'

const table: ReadonlyArray<readonly [path: string, first: string, type: string, found?: string]> = [
  [`${pool}_1_all.deb`, '!<arch>\n', 'application/vnd.debian.binary-package'],
  [`${pool}_1_all.deb`, '!<arch>\n', 'text/html'],
  [`${pool}_1_all.deb`, 'Welcome to', 'text/html', 'page'],
  [`${pool}_1_all.udeb`, '!<arch>\n', 'text/html; charset=utf-8'],
  [`${pool}_1_all.deb`, '!<arch>\n', 'application/xhtml+xml'],
  [`${pool}_1.orig.tar.gz`, '\x1f\x8b\x08', 'text/html'],
  [`${pool}_1.orig.tar.lzma`, ']\0\0\x80\0', 'text/html'],
  [`${pool}_1-1.debian.tar.xz`, '\xfd7zXZ\0\0\0', 'text/html'],
  [`${pool}_1-1.dsc`, '-----BEG', 'text/html'],
  [`${pool}_1-1.dsc`, 'Format: ', 'text/html'],
  [`${pool}_1-1.dsc`, 'Sorry, b', 'text/html', 'page'],
  [`${pool}_1.orig.tar.xz.asc`, '-----BEG', 'text/html'],
  [`${dists}/main/binary-amd64/Packages.gz`, '\x1f\x8b\x08', 'text/html'],
  [`${dists}/main/binary-amd64/Packages.xz`, '\xfd7zXZ\0\0\0', 'text/html; charset=UTF-8'],
  [`${dists}/main/binary-amd64/Packages.gz`, 'Sorry', 'text/html', 'page'],
  [`${pool}_1_all.deb`, html, 'application/octet-stream', 'page'],
  [`${pool}_1_all.deb`, '\xef\xbb\xbf <html>', '', 'page'],
  [`${pool}_1_all.deb`, '', '', 'empty'],
  [`${pool}_1_all.deb`, '\x1f\x8b\x08', '', 'format'],
  [`${pool}_1_all.deb`, '\0\0\0\0', ''],
  [`${pool}_1.orig.tar.xz`, '\xfd7zXZ\0\0\0', ''],
  [`${pool}_1.orig.tar.xz`, 'BZh91AY', '', 'format'],
  [`${pool}_1-1.dsc`, '-----BEG', 'text/plain'],
  [`${pool}_1-1.dsc`, html, 'text/html', 'page'],
  [`${dists}/main/binary-amd64/Packages.gz`, '\x1f\x8b\x08', ''],
  [`${dists}/main/binary-amd64/Packages.gz`, 'Package:', 'text/plain'],
  [`${dists}/main/binary-amd64/Packages.gz`, html, 'text/plain', 'page'],
  [`${dists}/main/binary-amd64/Packages.gz`, '', '', 'empty'],
  [`${dists}/main/binary-amd64/Packages`, '', ''],
  [`${dists}/main/binary-amd64/Packages`, '', 'text/html'],
  [`${dists}/InRelease`, html, 'text/html', 'page'],
  [`${dists}/InRelease`, '-----BEG', 'text/html'],
  ['/debian/doc/index.html', html, 'text/html'],
  [`${dists}/by-hash/SHA256/${'0'.repeat(64)}`, html, 'text/html'],
]

t.test('every kind of file, and what it begins with', t => {
  for (const [path, first, type, found] of table) {
    const file = path.slice(path.lastIndexOf('/') + 1)
    const fields = Fields.of(['Content-Type', type === '' ? undefined : type])
    const name = `${path}: ${JSON.stringify(first)} ${type}`
    t.equal(impostor(classify(path), file, fields, Buffer.from(first, 'latin1')), found, name)
  }
  t.end()
})

t.test('content in a coding has another beginning', t => {
  const file = classify(`${pool}_1_all.deb`)
  const gzip = Buffer.from([0x1f, 0x8b, 8])
  t.equal(
    impostor(file, 'hello_1_all.deb', Fields.of(['Content-Encoding', 'gzip']), gzip),
    undefined,
  )
  t.end()
})

t.test('what promises nothing need not be waited for', t => {
  t.ok(promisesNothing(classify('/debian/doc/constitution.txt')))
  t.ok(promisesNothing(classify(`${dists}/by-hash/SHA256/${'0'.repeat(64)}`)))
  t.notOk(promisesNothing(classify(`${pool}_1_all.deb`)))
  t.end()
})
