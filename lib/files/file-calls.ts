/**
 * The file system calls that writing small state needs. Tests replace them by a file system that fails, or that loses its power
 * between two calls.
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
