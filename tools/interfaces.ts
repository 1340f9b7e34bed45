/**
 * Records what users and their programs rely on: `npm run interfaces` writes test/recorded/interfaces.txt and says what has changed.
 */
import { mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { writeFileAtomically } from '../lib/files/atomic-file.ts'
import { packageRoot } from '../lib/package.ts'
import { exitCodes, print, run } from '../lib/program.ts'
import { differences, interfacesText, recordedPath } from '../test/fixtures/recorded/interfaces.ts'

await run('interfaces', async () => {
  const path = join(packageRoot(), recordedPath)
  const before = await readFile(path, 'utf8').catch(() => '')
  const text = interfacesText(packageRoot())
  await mkdir(dirname(path), { recursive: true })
  await writeFileAtomically(path, text)
  const { removed, added } = differences(before, text)
  const lines = [...removed.map(line => `- ${line}`), ...added.map(line => `+ ${line}`)]
  await print(lines.map(line => `${line}\n`).join(''))
  return exitCodes.success
})
