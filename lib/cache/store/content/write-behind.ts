/**
 * The temporary file a download grows into, written behind the window, and what happens when the disk will not take it.
 */
import { rm } from 'node:fs/promises'
import type { ReadableFile } from './blocks.ts'
import type { Window } from './tail-buffer.ts'

/** The temporary file, as far as a download needs it; a FileHandle fits. */
export interface GrowingFile extends ReadableFile {
  writev(buffers: Buffer[], position: number): Promise<{ bytesWritten: number }>
  sync(): Promise<void>
  close(): Promise<void>
}

/** The temporary file, or why there is none. */
export type Disk =
  | { readonly file: GrowingFile; readonly path: string }
  | { readonly because: string }

export interface SpoolParts {
  readonly disk: Disk
  readonly window: Window
  /** Bytes the window may hold beyond what is not yet written. */
  readonly limit: number
  /** Notes that the disk failed; answers the reason in words. */
  readonly failed: (error: unknown) => string
  /** Told whenever more is written, or nothing more will be. */
  readonly changed: () => void
}

/** How far the disk may be behind before the writer waits, and the most that is written at once. */
const behindBytes = 1024 * 1024

export class Spool {
  /** Bytes in the file; they stay readable until `close`, also after the disk failed. */
  written = 0
  readonly #parts: SpoolParts
  readonly #path: string | undefined
  #file: GrowingFile | undefined
  #because: string | undefined
  #running = false
  #removing: Promise<void> | undefined

  constructor(parts: SpoolParts) {
    this.#parts = parts
    if ('file' in parts.disk) {
      this.#file = parts.disk.file
      this.#path = parts.disk.path
    } else this.#because = parts.disk.because
  }

  /** Why nothing more is written; undefined while all goes well. */
  get because(): string | undefined {
    return this.#because
  }

  /** For reading what is written; undefined when there is none or it was let go. */
  get file(): ReadableFile | undefined {
    return this.#file
  }

  /** Whether the writer should wait for the disk. */
  get behind(): boolean {
    return this.#because === undefined && this.#missing > behindBytes
  }

  /** Whether something is still to be written, and will be. */
  get busy(): boolean {
    return this.#because === undefined && this.#missing > 0
  }

  get #missing(): number {
    return this.#parts.window.end - this.written
  }

  /** Starts writing what the window has and the file has not, unless that is under way. */
  write(): void {
    if (this.#running || !this.busy) return
    this.#running = true
    void this.#run()
  }

  /** No more disk from here on: the name goes, what is written stays readable. */
  giveUp(error: unknown): void {
    if (this.#because !== undefined) return
    this.#because = this.#parts.failed(error)
    this.#removing = this.#unlink()
    this.#parts.changed()
  }

  /** Flushes the file and has it named. A failing disk ends in `because`. */
  async finish(commit: (path: string) => Promise<void>): Promise<void> {
    if (this.#because === undefined && this.#file !== undefined && this.#path !== undefined) {
      try {
        await this.#file.sync()
        await commit(this.#path)
      } catch (error) {
        this.giveUp(error)
      }
    }
    await this.#removing
  }

  /** Takes the temporary name away. */
  async remove(): Promise<void> {
    this.#removing ??= this.#unlink()
    await this.#removing
  }

  /** Lets go of the file. Reads under way end first. */
  close(): void {
    const file = this.#file
    this.#file = undefined
    // A complaint about bytes nobody will read again helps nobody.
    void file?.close().catch(() => undefined)
  }

  async #run(): Promise<void> {
    const { window, limit, changed } = this.#parts
    try {
      while (this.busy && this.#file !== undefined) {
        const end = Math.min(window.end, this.written + behindBytes)
        const pieces = window.pieces(this.written, end)
        const { bytesWritten } = await this.#file.writev(pieces, this.written)
        if (bytesWritten === 0) throw new Error('the disk took no bytes')
        // The disk was given up meanwhile: the window, not the file, has what follows.
        if (this.#because !== undefined) return
        this.written += bytesWritten
        window.trim(limit, this.written)
        changed()
      }
    } catch (error) {
      this.giveUp(error)
    } finally {
      this.#running = false
    }
  }

  async #unlink(): Promise<void> {
    if (this.#path !== undefined) await rm(this.#path, { force: true }).catch(() => undefined)
  }
}
