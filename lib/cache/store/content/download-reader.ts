/**
 * One reader of a growing content: from the window when it keeps up, from the file when it does not.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import { Failure } from '../../../errors.ts'
import { type BlockSource, ReadAhead, type ReadableFile } from './blocks.ts'
import type { Window } from './tail-buffer.ts'

/** What a reader sees of its download. */
export interface GrowingContent {
  readonly window: Window
  readonly state: () => {
    readonly failure: Error | undefined
    readonly file: ReadableFile | undefined
    /** How far it may read, exclusive. */
    readonly visible: number
    /** No more will come, and all of it is verified. */
    readonly done: boolean
  }
  /** Kept at the next change of any of this. */
  readonly changed: () => Promise<void>
  /** Tells that a reader took a block; answers the moment. */
  readonly moved: () => Milliseconds
  readonly left: (reader: Reader) => void
}

export class Reader implements BlockSource {
  /** The next byte it wants. */
  position: number
  /** When it last took something. */
  movedAt: Milliseconds
  readonly #end: number
  readonly #content: GrowingContent
  #dropped: Error | undefined
  #closed = false
  #behind: ReadAhead | undefined

  constructor(
    from: { readonly first: number; readonly last: number | undefined; readonly now: Milliseconds },
    content: GrowingContent,
  ) {
    this.position = from.first
    this.movedAt = from.now
    this.#end = from.last === undefined ? Number.POSITIVE_INFINITY : from.last + 1
    this.#content = content
  }

  /** The oldest byte it still needs; infinite when it has all it asked for. */
  get needs(): number {
    return this.position < this.#end ? this.position : Number.POSITIVE_INFINITY
  }

  async next(): Promise<Buffer | undefined> {
    for (;;) {
      const { failure, file, visible, done } = this.#content.state()
      const wrong = this.#dropped ?? failure
      if (wrong !== undefined) throw wrong
      if (this.#closed || this.position >= this.#end) return undefined
      if (this.#behind !== undefined) {
        const block = await this.#catchUp(this.#behind)
        if (block !== undefined) return this.#take(block)
        continue
      }
      const block = this.#fromWindow(visible)
      if (block !== undefined) return this.#take(block)
      if (this.position < Math.min(visible, this.#end)) this.#fallBehind(file, visible)
      else if (done) return undefined
      else await this.#content.changed()
    }
  }

  async close(finished: boolean): Promise<void> {
    this.#closed = true
    this.#content.left(this)
    await this.#behind?.close(finished)
  }

  /** Fails it from now on, for it has stood still for `stall` while others waited. */
  drop(stall: Milliseconds): void {
    this.#dropped = new Failure(`A reader took nothing for ${stall} ms while others waited.`, {
      code: 'reader-stalled',
      fault: 'downstream',
      publicText: 'The client did not take what it asked for.',
      facts: { stall },
    })
  }

  #take(block: Buffer): Buffer {
    this.position += block.length
    this.movedAt = this.#content.moved()
    return block
  }

  async #catchUp(behind: ReadAhead): Promise<Buffer | undefined> {
    const block = await behind.next()
    if (block !== undefined) return block
    await behind.close(true)
    this.#behind = undefined
    return undefined
  }

  #fromWindow(visible: number): Buffer | undefined {
    const end = Math.min(visible, this.#end)
    const { window } = this.#content
    if (this.position >= end || this.position < window.start) return undefined
    return window.slice(this.position, end)
  }

  /** What the window has let go is in the file, up to where the window begins now; by then it may have moved on. */
  #fallBehind(file: ReadableFile | undefined, visible: number): void {
    if (file === undefined) throw new Error('the bytes are neither in memory nor on disk')
    const end = Math.min(visible, this.#end, this.#content.window.start)
    this.#behind = new ReadAhead(file, this.position, end)
  }
}
