/**
 * The record of a build, its list and its bill of materials.
 */
import t from 'tap'
import type { Build } from '../../../../lib/cache/features/builds/build.ts'
import {
  answerLine,
  buildOfList,
  decodeBuild,
  encodeBuild,
  lackingLine,
  listText,
} from '../../../../lib/cache/features/builds/build-file.ts'
import { spdxText } from '../../../../lib/cache/features/builds/spdx.ts'

const lastModified = 'Wed, 01 Jan 2025 00:00:00 GMT'
const hello = 'http://archive.example.org/debian/pool/main/h/hello/hello_2.10-3%2Bb1_amd64.deb'
const build: Build = {
  name: 'base',
  begun: Date.parse('2025-01-01T10:00:00Z'),
  locked: Date.parse('2025-01-01T11:00:00Z'),
  interrupted: false,
  answers: new Map([
    [hello, { digest: 'b'.repeat(64), size: 7, lastModified, fields: [['ETag', '"1"']] }],
    ['http://archive.example.org/debian/dists/sid/Release', { status: 404 }],
    ['http://archive.example.org/a', { status: 302, location: 'http://archive.example.org/b' }],
    [
      'http://archive.example.org/debian/dists/sid/InRelease',
      { digest: 'a'.repeat(64), size: 5, lastModified, fields: [] },
    ],
  ]),
  lacking: new Map([['http://archive.example.org/private', 'it was passed through']]),
}

t.test('a record is read as it was written, and two of one build are the same bytes', async t => {
  const text = encodeBuild(build, false)
  const read = decodeBuild(text)
  if (typeof read === 'string') throw new Error(read)
  t.strictSame(Object.fromEntries(read.answers), Object.fromEntries(build.answers))
  t.strictSame({ ...read, answers: 0 }, { ...build, answers: 0 })
  t.equal(encodeBuild(read, false), text)
  const turned = { ...build, answers: new Map([...build.answers].reverse()) }
  t.equal(encodeBuild(turned, false), text)
})

t.test('a record that was open when the service died is interrupted', async t => {
  const open = { ...build, locked: undefined }
  const interrupted = (text: string) => {
    const read = decodeBuild(text)
    return typeof read === 'string' ? read : read.interrupted
  }
  t.equal(interrupted(encodeBuild(open, true)), true)
  t.equal(interrupted(encodeBuild(open, false)), false)
  t.equal(interrupted(encodeBuild({ ...open, interrupted: true }, false)), true)
})

t.test('lines are appended while it is recorded, and a crash may break the last ones', async t => {
  const late = 'http://archive.example.org/late'
  const text = encodeBuild({ ...build, locked: undefined }, true)
  const lines = [lackingLine(late, 'it was answered 503'), answerLine(late, { status: 404 })]
  const [lacking = '', answered = ''] = lines
  const read = (more: string) => {
    const found = decodeBuild(text + more)
    if (typeof found === 'string') return found
    return [found.answers.has(late), found.lacking.has(late)]
  }
  t.strictSame(read(lacking), [false, true])
  t.strictSame(read(lacking + answered), [true, false], 'a later answer counts')
  t.strictSame(read(answered + lacking), [true, true])
  t.strictSame(read(lacking + answered.slice(0, -5)), [false, true], 'half a line')
  t.strictSame(read(`${answered}\0\0\0\n\0\0`), [true, false], 'what never reached the disk')
  t.equal(read(`{"url\n${answered}`), 'a line is not JSON', 'not at its end')
})

t.test('a text that is not a record is refused with its fault', async t => {
  const [head = '', ...lines] = encodeBuild(build, false).split('\n')
  const withLine = (line: object) => [head, JSON.stringify(line), ''].join('\n')
  const cases = [
    ['', /not a record/],
    ['{}', /not a record/],
    [head.replace('"version":1', '"version":2'), /newer cachesvc \(format 2/],
    [head.replace('"base"', '"../base"'), /it has no name that a build can have/],
    [head.replace(/"begun":\d+/, '"begun":-1'), /when it began/],
    [[head, ...lines].join('\n').slice(0, -20), /not JSON/],
    [withLine({ url: 'a' }), /no URL/],
    [withLine({ url: hello }), /neither digest nor status/],
    [withLine({ url: hello, status: 200 }), /neither/],
    [withLine({ url: hello, status: 302 }), /neither/],
    [withLine({ url: hello, status: 302, location: 'a\r\nSet-Cookie: b' }), /neither/],
    [withLine({ url: hello, sha256: 'x', size: 1, lastModified, fields: [] }), /SHA-256/],
    [
      withLine({
        url: hello,
        sha256: 'a'.repeat(64),
        size: 1,
        lastModified,
        fields: [['A', 'b\r\nC: d']],
      }),
      /fields/,
    ],
  ] as const
  for (const [text, because] of cases) {
    const read = decodeBuild(text)
    t.match(typeof read === 'string' ? read : 'a build', because, text.slice(-80))
  }
})

t.test('a list is sorted, has a line for each answer, and makes a build again', async t => {
  const text = listText(build)
  t.equal(
    text,
    [
      '# cachesvc build 1 base 2025-01-01T11:00:00.000Z',
      '- 302 http://archive.example.org/a http://archive.example.org/b',
      `${'a'.repeat(64)} 5 http://archive.example.org/debian/dists/sid/InRelease`,
      '- 404 http://archive.example.org/debian/dists/sid/Release',
      `${'b'.repeat(64)} 7 ${hello}`,
      '',
    ].join('\n'),
  )
  const read = buildOfList(text.replaceAll('\n', '\r\n'), 'again', 5)
  if (typeof read === 'string') throw new Error(read)
  t.match(read, { name: 'again', begun: 5, locked: build.locked, interrupted: false })
  t.equal(listText({ ...read, name: 'base' }), text)
  const other = buildOfList(text, 'again', 6)
  t.ok(typeof other !== 'string')
  if (typeof other !== 'string') {
    t.strictSame([...other.answers], [...read.answers], 'the same on every machine')
  }
})

t.test('what is no list is told with the number of the line', async t => {
  const [head] = listText(build).split('\n')
  const cases = [
    ['', /does not begin/],
    [`${head?.replace('build 1', 'build 9')}\n`, /newer/],
    ['# cachesvc build 1 base yesterday\n', /no date/],
    [`${head}\nabc 5 ${hello}\n`, /line 2/],
    [`${head}\n\n${'a'.repeat(64)} -5 ${hello}\n`, /line 3/],
    [`${head}\n${'a'.repeat(64)} 5 /etc/passwd\n`, /line 2/],
    [`${head}\n${'a'.repeat(64)} 5 ${hello} more\n`, /line 2/],
    [`${head}\n- 200 ${hello}\n`, /line 2/],
    [`${head}\n- 302 ${hello}\n`, /line 2/],
  ] as const
  for (const [text, because] of cases) {
    const read = buildOfList(text, 'again', 0)
    t.match(typeof read === 'string' ? read : 'a build', because, text)
  }
})

t.test('the bill of materials names each file with its package and digest', async t => {
  const text = spdxText(build, 'cachesvc-1.0')
  t.equal(spdxText(build, 'cachesvc-1.0'), text)
  const document = JSON.parse(text)
  t.match(document, {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: 'base',
    creationInfo: { created: '2025-01-01T11:00:00Z', creators: ['Tool: cachesvc-1.0'] },
  })
  t.match(document.documentNamespace, /^urn:cachesvc:build:base:sha256:[0-9a-f]{64}$/)
  t.equal(document.packages.length, 2, 'files alone')
  t.equal(document.relationships.length, 2)
  t.match(document.packages[1], {
    name: 'hello',
    versionInfo: '2.10-3+b1',
    downloadLocation: hello,
    filesAnalyzed: false,
    checksums: [{ algorithm: 'SHA256', checksumValue: 'b'.repeat(64) }],
    externalRefs: [
      { referenceType: 'purl', referenceLocator: 'pkg:deb/debian/hello@2.10-3%2Bb1?arch=amd64' },
    ],
  })
  t.notOk('versionInfo' in document.packages[0])
})
