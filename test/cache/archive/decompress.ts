import { gzipSync } from 'node:zlib'
import t from 'tap'
import { decompress, type usualLimits } from '../../../lib/cache/archive/decompress.ts'
import { Noise } from '../../fixtures/chance/noise.ts'
import { command, lacking } from '../../fixtures/process/command.ts'

async function unpacked(
  content: Buffer,
  limits?: typeof usualLimits,
  size = 1000,
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  const pieces = async function* () {
    for (let at = 0; at < content.length; at += size) yield content.subarray(at, at + size)
  }
  for await (const chunk of decompress(pieces(), limits)) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const text = Buffer.from(
  'Package: a\n'.repeat(20_000) + new Noise('x').bytes(50_000).toString('hex'),
)

const formats: ReadonlyArray<readonly [string, (content: Buffer) => Promise<Buffer>]> = [
  ['plain', async content => content],
  ['gz', async content => gzipSync(content)],
  ['xz', content => command('xz', ['-c'], { input: content })],
  ['zst', content => command('zstd', ['-c', '-q'], { input: content })],
]

const programs: Readonly<Record<string, string>> = { xz: 'xz', zst: 'zstd' }

for (const [name, pack] of formats) {
  const program = programs[name]
  const skip = program !== undefined && lacking(program)
  t.test(`${name}: what was packed comes out, in pieces of any size`, { skip }, async t => {
    const content = await pack(text)
    for (const size of [1, 7, 5000, 1 << 20]) {
      const part = size === 1 ? text.subarray(0, 3000) : text
      const packed = size === 1 ? await pack(part) : content
      t.ok((await unpacked(packed, undefined, size)).equals(part), `${size}`)
    }
    t.equal((await unpacked(await pack(Buffer.alloc(0)))).length, 0, 'nothing')
    if (name === 'plain') return
    await t.rejects(unpacked(content.subarray(0, content.length >> 1)), { code: 'malformed' })
    const broken = Buffer.from(content)
    broken.fill(0xff, 30, 60)
    await t.rejects(unpacked(broken), { name: 'DecompressError' })
    const endless = pack(Buffer.alloc(20 << 20))
    const limits = { most: 30 << 20, ratio: 10, free: 1 << 20 }
    await t.rejects(unpacked(await endless, limits), { code: 'too-large' }, 'a bomb by ratio')
    const most = { most: 10 << 20, ratio: 1e9, free: 1 << 20 }
    await t.rejects(unpacked(await endless, most), { code: 'too-large' }, 'a bomb by size')
  })
}

t.test('bzip2 and lzma are known by their first bytes and not read', async t => {
  for (const [format, head] of [
    ['bzip2', 'BZh9'],
    ['lzma', ']\0\0\x80\0'],
  ] as const) {
    const packed = Buffer.concat([Buffer.from(head), new Noise(format).bytes(5000)])
    const message = `it is packed with ${format}, which is not read`
    await t.rejects(unpacked(packed), { name: 'DecompressError', code: 'not-read', message })
  }
})

t.test('what only looks packed', async t => {
  for (const head of ['1f8b', 'fd377a585a00', '28b52ffd']) {
    const garbage = Buffer.concat([Buffer.from(head, 'hex'), new Noise(head).bytes(5000)])
    await t.rejects(unpacked(garbage), { name: 'DecompressError' }, head)
  }
  const window = Buffer.from('28b52ffd00ff0100000000000000000000000000', 'hex')
  await t.rejects(unpacked(window), { name: 'DecompressError' })
})

t.test('an error of what is read is passed on as it is, and leaving early closes it', async t => {
  const failing = async function* () {
    yield gzipSync(text).subarray(0, 100)
    throw new TypeError('the disk is gone')
  }
  await t.rejects(
    (async () => {
      for await (const _ of decompress(failing()));
    })(),
    TypeError,
  )
  let closed = false
  const source = async function* () {
    try {
      for (;;) yield Buffer.alloc(100_000, 'x')
    } finally {
      closed = true
    }
  }
  for await (const _ of decompress(source())) break
  t.ok(closed)
})
