/**
 * Open files, shared by everybody who reads them and kept a while after the last: the next client of a package in demand
 * finds it open. Blobs never change, so a handle is as good as its name.
 */
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { LRUCache } from 'lru-cache'
import type { Clock, Milliseconds } from '../../../async/clock.ts'

/** A file in use. It stays open until `release`, which is called once. */
export interface Lease {
  readonly file: FileHandle
  /** Bytes, when it was opened. */
  readonly size: number
  release(): void
}

interface Opened {
  readonly file: FileHandle
  readonly size: number
}

interface Shared {
  readonly path: string
  readonly opening: Promise<Opened>
  users: number
  /** The name is gone or its file was found wanting: closed after the last user. */
  forgotten: boolean
  idleSince: Milliseconds
}

/** Idle files kept open at most, and for how long: a file removed by hand keeps its space until then. */
const maxIdle = 64
const idleTime: Milliseconds = 60_000

export class Handles {
  readonly #clock: Clock
  readonly #used = new Map<string, Shared>()
  readonly #idle: LRUCache<string, Shared>
  readonly #closing = new Set<Promise<void>>()
  #cancel: (() => void) | undefined
  #closed = false

  constructor(clock: Clock) {
    this.#clock = clock
    this.#idle = new LRUCache<string, Shared>({
      max: maxIdle,
      dispose: (shared, _path, reason) => {
        if (reason === 'evict') this.#close(shared)
      },
    })
  }

  /** Opens a plain file for reading, or joins those who have it open. Throws what the file system throws. */
  async acquire(path: string): Promise<Lease> {
    const shared = this.#take(path)
    let released = false
    const release = () => {
      if (released) return
      released = true
      this.#release(shared)
    }
    try {
      const { file, size } = await shared.opening
      return { file, size, release }
    } catch (error) {
      this.#forget(shared)
      release()
      throw error
    }
  }

  /** Whether somebody reads the file now. */
  inUse(path: string): boolean {
    return this.#used.has(path)
  }

  /** The name no longer stands for this file: those who read it go on, the next one opens it anew. */
  forget(path: string): void {
    const used = this.#used.get(path)
    if (used !== undefined) this.#forget(used)
    const idle = this.#idle.get(path)
    if (idle === undefined) return
    this.#idle.delete(path)
    this.#close(idle)
  }

  /** Closes what nobody uses; what is in use closes with its last user. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancel?.()
    for (const path of [...this.#idle.keys()]) this.forget(path)
    await Promise.all(this.#closing)
  }

  #take(path: string): Shared {
    const used = this.#used.get(path)
    if (used !== undefined) {
      used.users += 1
      return used
    }
    const idle = this.#idle.get(path)
    if (idle !== undefined) this.#idle.delete(path)
    const shared = idle ?? {
      path,
      opening: openPlainFile(path),
      users: 0,
      forgotten: false,
      idleSince: 0,
    }
    shared.users = 1
    this.#used.set(path, shared)
    return shared
  }

  #release(shared: Shared): void {
    shared.users -= 1
    if (shared.users > 0) return
    if (this.#used.get(shared.path) === shared) this.#used.delete(shared.path)
    if (shared.forgotten || this.#closed) {
      this.#close(shared)
      return
    }
    shared.idleSince = this.#clock.now()
    this.#idle.set(shared.path, shared)
    this.#tidyLater()
  }

  #forget(shared: Shared): void {
    shared.forgotten = true
    if (this.#used.get(shared.path) === shared) this.#used.delete(shared.path)
  }

  #close(shared: Shared): void {
    const closing = shared.opening
      .then(({ file }) => file.close())
      // It never opened, or closing told of a problem with bytes nobody wrote.
      .catch(() => undefined)
      .finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
  }

  #tidyLater(): void {
    this.#cancel ??= this.#clock.after(idleTime, () => {
      this.#cancel = undefined
      const before = this.#clock.now() - idleTime
      for (const [path, shared] of [...this.#idle.entries()]) {
        if (shared.idleSince <= before) this.forget(path)
      }
      if (this.#idle.size > 0 && !this.#closed) this.#tidyLater()
    })
  }
}

async function openPlainFile(path: string): Promise<Opened> {
  // Without O_NONBLOCK a pipe of that name would hold a thread for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const found = await file.stat()
    if (!found.isFile()) throw new Error(`${path} is not a plain file`)
    return { file, size: found.size }
  } catch (error) {
    await file.close()
    throw error
  }
}
