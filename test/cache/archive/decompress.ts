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
  ['bz2', content => command('bzip2', ['-c'], { input: content })],
  ['lzma', content => command('xz', ['--format=lzma', '-c'], { input: content })],
]

const programs: Readonly<Record<string, string>> = {
  xz: 'xz',
  lzma: 'xz',
  zst: 'zstd',
  bz2: 'bzip2',
}

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

t.test(
  'several bzip2 streams in one file, runs, and one byte',
  { skip: lacking('bzip2') },
  async t => {
    const runs = Buffer.from(
      `${'a'.repeat(4)}b${'c'.repeat(255)}${'d'.repeat(260)}e\n`.repeat(3000),
    )
    const small = await command('bzip2', ['-1c'], { input: runs })
    const byte = await command('bzip2', ['-c'], { input: Buffer.from('x') })
    const all = Buffer.concat([small, byte, small])
    for (const size of [1000, 1 << 20]) {
      const out = await unpacked(all, undefined, size)
      t.ok(out.equals(Buffer.concat([runs, Buffer.from('x'), runs])), `${size}`)
    }
    const behind = Buffer.concat([small, Buffer.from('more')])
    await t.rejects(unpacked(behind), { code: 'malformed', message: /no bzip2/ })
  },
)

t.test('lzma of a known length, and what it claims', { skip: lacking('xz') }, async t => {
  const packed = await command('xz', ['--format=lzma', '-c'], { input: text })
  const claiming = (size: number, dictionary?: number): Buffer => {
    const copy = Buffer.from(packed)
    copy.writeBigUInt64LE(BigInt(size), 5)
    if (dictionary !== undefined) copy.writeUInt32LE(dictionary, 1)
    return copy
  }
  t.ok((await unpacked(claiming(text.length))).equals(text))
  await t.rejects(unpacked(claiming(1000)), { message: /longer than it says/ })
  await t.rejects(unpacked(claiming(text.length + 1)), { code: 'malformed' })
  const large = Buffer.from(packed)
  large.writeUInt32LE(0xfff00000, 1)
  await t.rejects(unpacked(large), { message: /dictionary/ })
  t.ok((await unpacked(claiming(text.length, 0xfff00000))).equals(text), 'no more than it needs')
  await t.rejects(unpacked(claiming(text.length, 0)), { code: 'malformed' }, 'too short a memory')
})

t.test(
  'bytes that turned over end in the content or in an error',
  { skip: lacking('xz', 'bzip2') },
  async t => {
    const some = text.subarray(0, 30_000)
    const noise = new Noise('flip')
    for (const [program, ...options] of [
      ['bzip2', '-c'],
      ['xz', '--format=lzma', '-c'],
    ]) {
      const packed = await command(program ?? '', options, { input: some })
      for (let round = 0; round < 60; round += 1) {
        const broken = Buffer.from(packed)
        const place = 14 + (noise.bytes(4).readUInt32BE(0) % (packed.length - 14))
        broken[place] = (broken[place] ?? 0) ^ (1 << (round % 8))
        const limits = { most: 1 << 20, ratio: 1e9, free: 0 }
        const error = await unpacked(broken, limits, 1 << 20).then(
          () => undefined,
          (error: Error) => error,
        )
        if (error !== undefined && error.name !== 'DecompressError') t.fail(`${error.stack}`)
      }
    }
  },
)

t.test('what only looks packed', async t => {
  for (const head of ['1f8b', 'fd377a585a00', '28b52ffd', '425a6839', '5d0000800000']) {
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
