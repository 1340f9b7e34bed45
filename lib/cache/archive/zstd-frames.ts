/**
 * Reads the frame headers of a zstd stream (RFC 8878 section 3.1). They say how much memory each frame makes a decoder
 * allocate. Pure; unpacks nothing.
 */

/** The largest window among the frames so far. What is no zstd is for the decoder to report. */
export class ZstdFrames {
  /** Bytes the frames so far ask for. */
  window = 0
  /** Bytes of the head being gathered. */
  #head: number[] = []
  /** Bytes that pass unread: content. */
  #skip = 0
  #step: 'frame' | 'block' = 'frame'
  #checksum = 0

  /** Looks at the next bytes. */
  look(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#skip > 0) {
        const passed = Math.min(this.#skip, bytes.length - at)
        this.#skip -= passed
        at += passed
        continue
      }
      this.#head.push(bytes[at] ?? 0)
      at += 1
      if (this.#step === 'frame') this.#frame()
      else this.#block()
    }
  }

  #frame(): void {
    const head = this.#head
    if (head.length < 5) return
    // 3.1.2: a skippable frame has its size behind the magic number.
    const skippable = ((head[0] ?? 0) & 0xf0) === 0x50 && head[1] === 0x2a && head[2] === 0x4d
    if (skippable) {
      if (head.length < 8) return
      this.#skip = littleEndian(head.slice(4))
      this.#head = []
      return
    }
    // 3.1.1.1: Frame_Header_Descriptor, Window_Descriptor, Dictionary_ID, Frame_Content_Size
    const descriptor = head[4] ?? 0
    const single = (descriptor & 0x20) !== 0
    const dictionary = [0, 1, 2, 4][descriptor & 3] ?? 0
    const size = [single ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0
    const begins = 5 + (single ? 0 : 1) + dictionary
    if (head.length < begins + size) return
    const base = 2 ** (10 + ((head[5] ?? 0) >> 3))
    const asked = single
      ? littleEndian(head.slice(begins))
      : base + (base / 8) * ((head[5] ?? 0) & 7)
    this.window = Math.max(this.window, asked)
    this.#checksum = (descriptor & 4) === 0 ? 0 : 4
    this.#step = 'block'
    this.#head = []
  }

  /** 3.1.1.2: Last_Block, Block_Type, Block_Size; of a run of one byte only that byte follows. */
  #block(): void {
    if (this.#head.length < 3) return
    const header = littleEndian(this.#head)
    this.#skip = ((header >> 1) & 3) === 1 ? 1 : header >> 3
    if ((header & 1) === 1) {
      this.#skip += this.#checksum
      this.#step = 'frame'
    }
    this.#head = []
  }
}

function littleEndian(bytes: readonly number[]): number {
  return bytes.reduceRight((value, byte) => value * 256 + byte, 0)
}
