import t from 'tap'
import { decompress } from '../../../lib/cache/archive/decompress.ts'
import { ZstdFrames } from '../../../lib/cache/archive/zstd-frames.ts'

const magic = '28b52ffd'
/** One byte of content, the last block. */
const last = '090000' + '41'
/** A frame with a window of 1 KiB, with and without a checksum. */
const small = `${magic}0000${last}`
const checked = `${magic}0400${last}ffffffff`
const skippable = `502a4d1804000000${magic}`
const halfGigabyte = `${magic}0098${last}`

function windowOf(hex: string, piece: number): number {
  const frames = new ZstdFrames()
  const bytes = Buffer.from(hex, 'hex')
  for (let at = 0; at < bytes.length; at += piece) frames.look(bytes.subarray(at, at + piece))
  return frames.window
}

t.test('the window of every frame is seen, wherever it begins', async t => {
  const cases: ReadonlyArray<readonly [string, string, number]> = [
    ['one', small, 1024],
    ['a mantissa', `${magic}000f${last}`, 2048 + 7 * 256],
    ['one segment', `${magic}a000001000${last}`, 2 ** 20],
    ['a dictionary', `${magic}01000a${last}${halfGigabyte}`, 2 ** 29],
    ['the second', small + halfGigabyte, 2 ** 29],
    ['behind a checksum', checked + halfGigabyte, 2 ** 29],
    ['behind one that is skipped', skippable + halfGigabyte, 2 ** 29],
    ['behind a run', `${magic}0000${'02f0ff'}41${'03f0ff'}42${halfGigabyte}`, 2 ** 29],
    ['behind two blocks', `${magic}0000${'100000'}4141${last}${halfGigabyte}`, 2 ** 29],
    ['not what lies in content', `${magic}0000${'a10000'}${halfGigabyte}${'00'.repeat(10)}`, 1024],
  ]
  for (const [words, hex, wanted] of cases) {
    for (const piece of [1, 3, 1000]) t.equal(windowOf(hex, piece), wanted, words)
  }
})

t.test('frames one behind the other are one content, whatever Node can do itself', async t => {
  const packed = (async function* () {
    yield Buffer.from(small.repeat(3), 'hex')
  })()
  const unpacked: Uint8Array[] = []
  for await (const chunk of decompress(packed)) unpacked.push(chunk)
  t.equal(Buffer.concat(unpacked).toString(), 'AAA')
})

t.test('a later frame that asks for too much is refused like the first', async t => {
  const unpack = async () => {
    const packed = (async function* () {
      yield Buffer.from(`${small}${magic}00a8`, 'hex')
      yield Buffer.from(`${last}${'00'.repeat(20)}`, 'hex')
    })()
    for await (const _ of decompress(packed));
  }
  await t.rejects(unpack(), { name: 'DecompressError' })
})
