/**
 * Measures what the figures of docs/sizing.md are made of: `node dist/bench/sizing/main.js [--write | --tables | --quick]`, after `npm run build`.
 *
 * Prints the tables. With --write it writes bench/sizing/figures.json and the tables of docs/sizing.md and README.md here; with --tables it measures
 * nothing and writes the tables from the figures that are there; --quick is for development. Needs gcc and about five minutes.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, loadavg, release, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { packageRoot, packageVersion } from '../../lib/package.ts'
import { command } from '../../test/fixtures/process/command.ts'
import { LoadClient } from '../load.ts'
import { otherCore, startOrigin } from '../subject.ts'
import { authCosts, cacheCosts, checkAuth, checkCache, full, type Place, quick } from './measure.ts'
import { documents, type Measured, withTables } from './page.ts'

const figures = join(packageRoot(), 'bench/sizing/figures.json')
const [option] = process.argv.slice(2)

async function measure(): Promise<Measured> {
  const [before = 0] = loadavg()
  // The daemons have the first core for themselves, and this program, the load and the origin the other one.
  await command('taskset', ['-acp', String(otherCore), String(process.pid)])
  const directory = await mkdtemp(join(tmpdir(), 'sizing-'))
  const load = await LoadClient.compile(directory)
  const origin = await startOrigin(join(directory, 'origin'))
  const say = (text: string) => void process.stderr.write(text)
  const effort = option === '--quick' ? quick : full
  const place: Place = { directory, origin, load, effort, say }
  try {
    const costs = { cache: await cacheCosts(place), auth: await authCosts(place) }
    const checks = [await checkCache(place, costs), await checkAuth(place, costs)]
    const [model = 'unknown processor'] = cpus().map(cpu => cpu.model)
    return {
      date: new Date().toISOString().slice(0, 10),
      machine: `${cpus().length} × ${model}, ${Math.round(totalmem() / 1024 ** 3)} GiB memory, Linux ${release()}, one core for the daemon`,
      versions: `cachesvc and authproxy ${packageVersion()}, Node.js ${process.versions.node}`,
      load: before,
      costs,
      checks,
    }
  } finally {
    await origin.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

const recorded = (): Measured => JSON.parse(readFileSync(figures, 'utf8'))
const measured = option === '--tables' ? recorded() : await measure()
const pages = Object.entries(documents).map(([path, names]) => {
  const file = join(packageRoot(), path)
  return { file, text: withTables(readFileSync(file, 'utf8'), names, measured) }
})
if (option === undefined || option === '--quick') {
  for (const { text } of pages) process.stdout.write(text)
} else {
  writeFileSync(figures, `${JSON.stringify(measured, undefined, 2)}\n`)
  for (const { file, text } of pages) writeFileSync(file, text)
}
