/**
 * Sends the figures of the overview to open pages, as server-sent events (HTML Standard section 9.2). One timer serves all pages. It
 * runs only while there is a page.
 */
import type { Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { Piece } from '../../bytes/piece.ts'
import type { Source, Take } from '../../bytes/source.ts'
import { serviceState } from './endpoint.ts'
import type { OperationsSources } from './sources.ts'
import { liveFigures } from './views/index-view.ts'

const interval: Milliseconds = 2000
const mostPages = 20
/** The most events of one stream. The browser then asks again, so that the policy is applied again. */
const mostEvents = 300

interface Page {
  events: number
  /** The latest event, while the page has not read it. */
  waiting: Buffer | undefined
  take: Take | undefined
}

export class LiveEvents {
  readonly #sources: OperationsSources
  readonly #pages = new Set<Page>()
  #stop: (() => void) | undefined
  #closed = false

  constructor(sources: OperationsSources) {
    this.#sources = sources
  }

  get full(): boolean {
    return this.#closed || this.#pages.size >= mostPages
  }

  /** Opens the stream of events for one page. The first event is sent at once. */
  open(): Source {
    const page: Page = { events: 0, waiting: undefined, take: undefined }
    this.#pages.add(page)
    this.#stop ??= repeat(this.#sources.clock, interval, () => this.#send(this.#pages))
    if (this.#closed) this.#end(page)
    else void this.#send([page])
    return {
      next: take => {
        page.take = take
        this.#hand(page)
      },
      close: () => {
        page.take = undefined
        this.#end(page)
      },
    }
  }

  close(): void {
    this.#closed = true
    for (const page of this.#pages) this.#end(page)
  }

  async #send(pages: Iterable<Page>): Promise<void> {
    const { is, because, cautions } = await serviceState(this.#sources)
    const figures = { ...liveFigures(this.#sources), state: [is, because, ...cautions].join() }
    const event = Buffer.from(`data: ${JSON.stringify(figures)}\n\n`)
    for (const page of pages) {
      page.events += 1
      page.waiting = event
      this.#hand(page)
      if (page.events >= mostEvents) this.#end(page)
    }
  }

  #hand(page: Page): void {
    const { take, waiting } = page
    const open = this.#pages.has(page)
    if (take === undefined || (waiting === undefined && open)) return
    page.take = undefined
    page.waiting = undefined
    take(undefined, waiting && new Piece(waiting))
  }

  #end(page: Page): void {
    this.#pages.delete(page)
    this.#hand(page)
    if (this.#pages.size > 0) return
    this.#stop?.()
    this.#stop = undefined
  }
}
