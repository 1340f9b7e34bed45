/**
 * The icon: a parcel in a rounded square, drawn here, so that there is no file to lose and no origin to credit.
 * Format: ICO with 32-bit bitmaps (BITMAPINFOHEADER, rows bottom up, BGRA, then the one-bit mask).
 */

type Colour = readonly [red: number, green: number, blue: number, alpha: number]

const clear: Colour = [0, 0, 0, 0]
const ground: Colour = [10, 101, 96, 255]
const lid: Colour = [255, 255, 255, 255]
const box: Colour = [190, 228, 223, 255]
const tape: Colour = [227, 146, 60, 255]

const sizes = [16, 32, 48] as const
/** Each pixel is the mean of so many samples, squared. */
const fineness = 4

/** The bytes of favicon.ico. */
export function icon(): Buffer {
  const images = sizes.map(bitmap)
  const head = Buffer.alloc(6 + 16 * images.length)
  head.writeUInt16LE(1, 2)
  head.writeUInt16LE(images.length, 4)
  let offset = head.length
  images.forEach((image, i) => {
    const at = 6 + 16 * i
    const edge = sizes[i] ?? 0
    head.writeUInt8(edge, at)
    head.writeUInt8(edge, at + 1)
    head.writeUInt16LE(1, at + 4)
    head.writeUInt16LE(32, at + 6)
    head.writeUInt32LE(image.length, at + 8)
    head.writeUInt32LE(offset, at + 12)
    offset += image.length
  })
  return Buffer.concat([head, ...images])
}

function bitmap(edge: number): Buffer {
  const head = Buffer.alloc(40)
  head.writeUInt32LE(40, 0)
  head.writeInt32LE(edge, 4)
  head.writeInt32LE(edge * 2, 8)
  head.writeUInt16LE(1, 12)
  head.writeUInt16LE(32, 14)
  const pixels = Buffer.alloc(edge * edge * 4)
  for (let y = 0; y < edge; y += 1) {
    for (let x = 0; x < edge; x += 1) {
      const [red, green, blue, alpha] = pixel(x, y, edge)
      pixels.set([blue, green, red, alpha], ((edge - 1 - y) * edge + x) * 4)
    }
  }
  const maskRow = Math.ceil(edge / 32) * 4
  return Buffer.concat([head, pixels, Buffer.alloc(maskRow * edge)])
}

/** The mean colour of a pixel, weighted by alpha so that edges do not darken. */
function pixel(x: number, y: number, edge: number): Colour {
  const total = [0, 0, 0, 0] as [number, number, number, number]
  for (let i = 0; i < fineness * fineness; i += 1) {
    const u = (x + ((i % fineness) + 0.5) / fineness) / edge
    const v = (y + (Math.floor(i / fineness) + 0.5) / fineness) / edge
    const [red, green, blue, alpha] = sample(u, v)
    total[0] += red * alpha
    total[1] += green * alpha
    total[2] += blue * alpha
    total[3] += alpha
  }
  const [red, green, blue, alpha] = total
  if (alpha === 0) return clear
  const mean = (sum: number) => Math.round(sum / alpha)
  return [mean(red), mean(green), mean(blue), Math.round(alpha / fineness ** 2)]
}

/** The drawing itself, in a square from 0 to 1, y downwards. */
function sample(x: number, y: number): Colour {
  if (!inRounded(x, y)) return clear
  const insideBox = x > 0.19 && x < 0.81
  if (insideBox && y > 0.2 && y < 0.4) return x > 0.42 && x < 0.58 ? tape : lid
  if (insideBox && y > 0.45 && y < 0.81) return x > 0.42 && x < 0.58 && y < 0.6 ? tape : box
  return ground
}

function inRounded(x: number, y: number): boolean {
  const radius = 0.2
  const dx = Math.max(radius - x, 0, x - (1 - radius))
  const dy = Math.max(radius - y, 0, y - (1 - radius))
  return dx * dx + dy * dy <= radius * radius
}
