/**
 * Writes the manuals and the JSON Schema into the repository: `npm run manual`.
 */
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { writeFileAtomically } from '../lib/atomic-file.ts'
import { manualFiles as gatewayFiles } from '../lib/auth/config/manual.ts'
import { manualFiles as cacheFiles } from '../lib/cache/config/manual.ts'
import { exitCodes, print, run } from '../lib/program.ts'

await run('manual', async () => {
  for (const [path, content] of [...cacheFiles(), ...gatewayFiles()]) {
    await mkdir(dirname(path), { recursive: true })
    await writeFileAtomically(path, content)
    await print(`${path}\n`)
  }
  return exitCodes.success
})
