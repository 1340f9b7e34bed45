/**
 * `cachesvc list [PATTERN]`: what is stored, one line a target: bytes, last use, digest and key, separated by tabs for other
 * programs to read.
 */
import { systemClock } from '../../async/clock.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { openStoreForReading } from '../store/reading.ts'

/** Prints every entry whose key matches; a failure when none does. */
export async function printList(pattern: string | undefined, config: Config): Promise<ExitCode> {
  const matches = matcher(pattern)
  const store = await openStoreForReading({
    directory: config.cacheDirectory,
    clock: systemClock,
    log: createLog({ level: 'warn', to: process.stderr }),
  })
  let found = 0
  try {
    for await (const { key, size, digest, lastUsed } of store.entries()) {
      if (!matches(key)) continue
      found += 1
      await print(`${size}\t${new Date(lastUsed).toISOString()}\t${digest}\t${key}\n`)
    }
  } finally {
    await store.close()
  }
  if (found > 0) return exitCodes.success
  const sought = pattern === undefined ? '' : ` that matches ${JSON.stringify(pattern)}`
  await print(`cachesvc: ${config.cacheDirectory} holds nothing${sought}\n`, process.stderr)
  return exitCodes.failure
}

/** A key matches that contains the pattern; `*` in it stands for anything. */
export function matcher(pattern: string | undefined): (key: string) => boolean {
  if (pattern === undefined) return () => true
  const parts = pattern.split('*')
  return key => {
    let from = 0
    for (const part of parts) {
      const at = key.indexOf(part, from)
      if (at === -1) return false
      from = at + part.length
    }
    return true
  }
}
