/**
 * Writes the manuals, the JSON Schemas, the lists of metrics and of failures, and the forged tokens into the repository: `npm run manual`.
 */
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { authproxyManual } from '../lib/auth/config/manual.ts'
import { AuthMetrics } from '../lib/auth/metrics.ts'
import { cachesvcManual } from '../lib/cache/config/manual.ts'
import { listMetrics } from '../lib/cache/reporting.ts'
import { manualFiles } from '../lib/config/manual.ts'
import { writeFileAtomically } from '../lib/files/atomic-file.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { failureList } from './failure-list.ts'
import { forgedTokensFile } from './forged-tokens.ts'
import { metricsList } from './metrics-list.ts'

await run('manual', async () => {
  const files = [
    ...manualFiles(cachesvcManual),
    ...manualFiles(authproxyManual),
    failureList(),
    forgedTokensFile(),
    metricsList({ cachesvc: listMetrics(), authproxy: AuthMetrics.list() }),
  ]
  for (const [path, content] of files) {
    await mkdir(dirname(path), { recursive: true })
    await writeFileAtomically(path, content)
    await print(`${path}\n`)
  }
  return exitCodes.success
})
