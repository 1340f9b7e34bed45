/**
 * `cachesvc export FILE|DIR`: writes stored files as a bundle, beside a running daemon as well.
 */
import { systemClock } from '../../async/clock.ts'
import { packageVersion } from '../../package.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { exportBundle } from '../bundle/export.ts'
import { type Choice, chosenFrom } from '../bundle/indexed.ts'
import { openSink } from '../bundle/sink.ts'
import type { Config } from '../config/config.ts'
import { countOf, size } from '../figures.ts'
import { ProgressLine } from './progress.ts'
import { withStore } from './read-only.ts'

/** A failure when there is nothing to export. Throws when the bundle cannot be written; then none is there. */
export async function printExport(path: string, config: Config, choice: Choice): Promise<ExitCode> {
  const line = new ProgressLine(process.stderr)
  let code: ExitCode = exitCodes.failure
  await withStore(config, async store => {
    const { chosen, unread } = await chosenFrom(store, choice)
    for (const { key, because } of unread) {
      await complain(
        `${key} cannot be read, so packages that only it names are missing: ${because}`,
      )
    }
    const now = systemClock.now()
    const sink = await openSink(path, now)
    let read = 0
    try {
      const exported = await exportBundle({
        ...{ store, sink, now, chosen, by: `cachesvc ${packageVersion()}` },
        onRead: bytes => {
          read += bytes
          line.show(`${size(read)} written`)
        },
      })
      line.end()
      for (const { key, because } of exported.leftOut) await complain(`left out ${key}: ${because}`)
      if (exported.files === 0) {
        await sink.abandon()
        await complain('nothing stored is meant: no bundle was written')
        return
      }
      await sink.finish()
      const { files, bytes } = exported
      await print(`exported ${countOf(files, 'file')}, ${size(bytes)}, to ${path}\n`)
      code = exitCodes.success
    } catch (error) {
      line.end()
      await sink.abandon()
      throw error
    }
  })
  return code
}

function complain(sentence: string): Promise<void> {
  return print(`cachesvc: ${sentence}\n`, process.stderr)
}
