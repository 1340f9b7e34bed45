import t from 'tap'
import { icon } from '../../../lib/cache/operations/icon.ts'

t.test('the icon is an ICO file with consistent entries', async t => {
  const file = icon()
  t.equal(file.readUInt16LE(0), 0)
  t.equal(file.readUInt16LE(2), 1, 'type: icon')
  const amount = file.readUInt16LE(4)
  t.equal(amount, 3)
  let end = 6 + 16 * amount
  for (let i = 0; i < amount; i += 1) {
    const at = 6 + 16 * i
    const edge = file.readUInt8(at)
    const length = file.readUInt32LE(at + 8)
    const offset = file.readUInt32LE(at + 12)
    t.equal(offset, end, 'images follow one another')
    t.equal(file.readUInt32LE(offset), 40, 'BITMAPINFOHEADER')
    t.equal(file.readInt32LE(offset + 4), edge)
    t.equal(file.readInt32LE(offset + 8), 2 * edge, 'colours and mask')
    t.equal(file.readUInt16LE(offset + 14), 32, 'bits a pixel')
    t.equal(length, 40 + edge * edge * 4 + Math.ceil(edge / 32) * 4 * edge)
    const corner = offset + 40
    t.equal(file.readUInt8(corner + 3), 0, 'the corner is round')
    const middle = offset + 40 + ((edge / 2) * edge + edge / 2) * 4
    t.equal(file.readUInt8(middle + 3), 255, 'the middle is not')
    end += length
  }
  t.equal(file.length, end)
  t.ok(file.length < 20_000)
})
