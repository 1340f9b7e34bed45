/**
 * The open files of stored contents: one for all readers of a content, open a while after the last.
 */
import type { Milliseconds } from '../../../async/clock.ts'
import type { Source } from '../../../bytes/source.ts'
import type { Surroundings } from '../disk/disk.ts'
import { OpenContent, type SharedBlocks, ShortFile } from './open-content.ts'

/** Files without readers that stay open, and for how long: the next client of a package in demand finds it open. */
const mostIdle = 64
const idleTime: Milliseconds = 10_000

/** A part of a content. */
export interface ContentPart {
  readonly digest: string
  readonly size: number
  readonly first: number
  /** Exclusive. */
  readonly end: number
  /** Told when it turns out to be shorter in the middle. */
  readonly broken?: (error: Error) => void
}

/** Reads an open file: the part that was wanted, or another. */
export type Opener = (part?: { readonly first: number; readonly end: number }) => Source

interface OpenFilesParts extends Surroundings {
  readonly blocks: SharedBlocks
}

export class OpenFiles {
  readonly #parts: OpenFilesParts
  readonly #openings = new Map<string, Promise<OpenContent | undefined>>()
  readonly #files = new Map<string, OpenContent>()
  /** Since when a file has no readers, the one that was left first in front. */
  readonly #idle = new Map<string, Milliseconds>()
  #tidying = false

  constructor(parts: OpenFilesParts) {
    this.#parts = parts
  }

  /** Opens the file now and answers how to read the part; undefined when there is none of that size. */
  async open(wanted: ContentPart): Promise<Opener | undefined> {
    const content = await this.#opened(wanted)
    if (content === undefined) return undefined
    return part => {
      const of = { ...wanted, ...part }
      return content.closed ? this.read(of) : this.#readFrom(content, of)
    }
  }

  read(wanted: ContentPart): Source {
    return openingSource(
      this.#opened(wanted).then(content => {
        if (content === undefined) throw new ShortFile(wanted.first, wanted.size)
        return this.#readFrom(content, wanted)
      }),
    )
  }

  /** The name no longer stands for this file: its readers go on, and the next one opens the file anew. */
  forget(digest: string): void {
    this.#openings.delete(digest)
    this.#close(digest)
  }

  close(): void {
    for (const digest of [...this.#files.keys()]) this.#close(digest)
  }

  #readFrom(content: OpenContent, { digest, first, end, broken }: ContentPart): Source {
    this.#idle.delete(digest)
    return content.read(first, end, error => {
      if (this.#files.get(digest) === content) this.#close(digest)
      if (error instanceof ShortFile) broken?.(error)
    })
  }

  async #opened({ digest, size }: ContentPart): Promise<OpenContent | undefined> {
    for (;;) {
      const known = this.#files.get(digest)
      if (known !== undefined) return known.size === size ? known : undefined
      if ((await (this.#openings.get(digest) ?? this.#open(digest))) === undefined) return undefined
    }
  }

  /** Opens the file and puts it among those that are open, unless it is forgotten meanwhile. */
  #open(digest: string): Promise<OpenContent | undefined> {
    const opening = this.#openNow(digest).then(opened => {
      if (this.#openings.get(digest) !== opening) opened?.close()
      else if (opened !== undefined) {
        this.#files.set(digest, opened)
        this.#rest(digest, opened)
      }
      return opened
    })
    this.#openings.set(digest, opening)
    return opening.finally(() => {
      if (this.#openings.get(digest) === opening) this.#openings.delete(digest)
    })
  }

  async #openNow(digest: string): Promise<OpenContent | undefined> {
    const file = await this.#parts.disk.openIfThere(this.#parts.layout.blob(digest))
    if (file === undefined) return undefined
    try {
      const found = await file.look()
      const extent = { readable: found.isFile() ? found.size : -1, whole: true }
      const onIdle = (content: OpenContent): void => this.#rest(digest, content)
      return new OpenContent(file, this.#parts.blocks, () => extent, onIdle)
    } catch (error) {
      file.close()
      throw error
    }
  }

  #rest(digest: string, content: OpenContent): void {
    if (content.closed) return
    this.#idle.set(digest, this.#parts.clock.elapsed())
    const [oldest] = this.#idle.keys()
    if (this.#idle.size > mostIdle && oldest !== undefined) this.#close(oldest)
    this.#tidyLater()
  }

  #tidyLater(): void {
    if (this.#tidying) return
    this.#tidying = true
    this.#parts.clock.after(idleTime, () => {
      this.#tidying = false
      const before = this.#parts.clock.elapsed() - idleTime
      for (const [digest, since] of this.#idle) if (since <= before) this.#close(digest)
      if (this.#idle.size > 0) this.#tidyLater()
    })
  }

  #close(digest: string): void {
    const content = this.#files.get(digest)
    if (content === undefined) return
    this.#files.delete(digest)
    this.#idle.delete(digest)
    content.close()
  }
}

function openingSource(opening: Promise<Source>): Source {
  let closed = false
  return {
    next(take) {
      opening.then(
        source => closed || source.next(take),
        (error: unknown) => {
          if (!closed) take(error instanceof Error ? error : new Error(String(error)), undefined)
        },
      )
    },
    close() {
      closed = true
      opening.then(
        source => source.close(),
        () => undefined,
      )
    },
  }
}
