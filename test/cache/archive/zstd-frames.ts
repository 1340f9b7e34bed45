import t from 'tap'
import { decompress } from '../../../lib/cache/archive/decompress.ts'

const magic = '28b52ffd'
/** One byte of content, the last block. */
const last = '090000' + '41'
/** A frame with a window of 1 KiB, with and without a checksum. */
const small = `${magic}0000${last}`
const checked = `${magic}0400${last}ffffffff`
const skippable = `502a4d1804000000${magic}`
const halfGigabyte = `${magic}0098${last}`

/** What is unpacked of a stream that comes in pieces; an error says why it cannot be. */
async function unpacked(hex: string, piece: number): Promise<string> {
  const bytes = Buffer.from(hex, 'hex')
  const packed = async function* () {
    for (let at = 0; at < bytes.length; at += piece) yield bytes.subarray(at, at + piece)
  }
  const chunks: Uint8Array[] = []
  for await (const chunk of decompress(packed())) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

t.test('a window over 128 MiB is refused, wherever its frame begins', async t => {
  const cases: ReadonlyArray<readonly [words: string, hex: string, refused: boolean]> = [
    ['one', small, false],
    ['the largest', `${magic}0088${last}`, false],
    ['a mantissa', `${magic}0089${last}`, true],
    ['the largest segment', `${magic}a000000008${last}`, false],
    ['one segment', `${magic}a001000008${last}`, true],
    ['a dictionary', `${magic}01000a${last}${halfGigabyte}`, true],
    ['the second', small + halfGigabyte, true],
    ['behind a checksum', checked + halfGigabyte, true],
    ['behind one that is skipped', small + skippable + halfGigabyte, true],
    ['behind a run', `${magic}0000${'02f0ff'}41${'03f0ff'}42${halfGigabyte}`, true],
    ['behind two blocks', `${magic}0000${'100000'}4141${last}${halfGigabyte}`, true],
    ['not what lies in content', `${magic}0000${'a10000'}${halfGigabyte}${'00'.repeat(10)}`, false],
  ]
  for (const [words, hex, refused] of cases) {
    for (const piece of [1, 3, 1000]) {
      const because = await unpacked(hex, piece).then(() => '', String)
      t.equal(/its window is larger/.test(because), refused, `${words}: ${because}`)
    }
  }
})

t.test('frames one behind the other are one content, whatever Node can do itself', async t => {
  for (const piece of [1, 3, 1000]) t.equal(await unpacked(small.repeat(3), piece), 'AAA')
})

t.test('a later frame that asks for too much is refused like the first', async t => {
  const refused = { name: 'DecompressError', code: 'too-large' }
  await t.rejects(unpacked(`${small}${magic}00a8${last}${'00'.repeat(20)}`, 19), refused)
})
