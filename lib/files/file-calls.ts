/**
 * The calls of the file system that small state on disk is made of, so that tests can put a file system in their place that fails
 * or whose power is cut between any two of them.
 */
import type { Stats } from 'node:fs'
import { open, readdir, rename, rm, stat } from 'node:fs/promises'

export interface OpenedFile {
  stat(): Promise<Stats>
  read(into: Buffer, offset: number, length: number): Promise<{ readonly bytesRead: number }>
  writeFile(content: string | Uint8Array | Iterable<string>): Promise<void>
  chown(uid: number, gid: number): Promise<void>
  sync(): Promise<void>
  datasync(): Promise<void>
  close(): Promise<void>
}

/** Each call does what the one of the same name in `node:fs/promises` does. */
export interface FileCalls {
  open(path: string, flags: string | number, mode?: number): Promise<OpenedFile>
  rename(from: string, to: string): Promise<void>
  rm(path: string, options: { readonly force: true; readonly recursive?: true }): Promise<void>
  readdir(path: string): Promise<string[]>
  stat(path: string): Promise<Stats>
}

export const systemFiles: FileCalls = { open, rename, rm, readdir, stat }
