/**
 * Runs the scenarios over every proxy in turn, several times, and prints one table.
 */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ArchiveOrigin } from '../test/fixtures/archive-origin.ts'
import { Noise } from '../test/fixtures/noise.ts'
import { lackingProxy, type ProxyName, ProxyProcess } from '../test/fixtures/proxy-process.ts'
import { LoadClient } from './load.ts'
import {
  type Figures,
  hugeSize,
  largeSize,
  scenarios,
  smallCount,
  smallSizes,
} from './scenarios.ts'
import { type Measured, table } from './table.ts'

const usage = `bench/run [--only small,large,cold,stampede] [--with cachesvc,nginx,squid,apt-cacher-ng]
          [--repeats N] [--seconds N] [--json FILE]
  --repeats   measurements of each scenario and proxy (3)
  --seconds   no new measurement after so many (220)
  --json      all figures, for comparisons between versions
`
const everybody: readonly ProxyName[] = ['cachesvc', 'nginx', 'squid', 'apt-cacher-ng']

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(scenarios).join(',') },
    with: { type: 'string', default: everybody.join(',') },
    repeats: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '220' },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

/** The origin's directory: incompressible files of the sizes the scenarios name. */
async function fillRoot(root: string): Promise<void> {
  const noise = new Noise('bench')
  const pool = join(root, 'pool')
  await mkdir(pool, { recursive: true })
  for (let i = 0; i < smallCount; i += 1) {
    const size = smallSizes.least + noise.below(smallSizes.most - smallSizes.least)
    await writeFile(join(pool, `small-${i}_1.0_all.deb`), noise.bytes(size))
  }
  for (const [name, size] of Object.entries({ large: largeSize, huge: hugeSize })) {
    const content = Array.from({ length: size }, () => noise.bytes(1 << 20))
    await writeFile(join(pool, name), content)
    await writeFile(join(pool, `${name}_1.0_all.deb`), content)
  }
}

async function bench(print: (text: string) => void): Promise<void> {
  const end = performance.now() + Number(values.seconds) * 1000
  const directory = await mkdtemp(join(tmpdir(), 'bench-'))
  // squid drops root's rights and has to get to its own directory below.
  await chmod(directory, 0o755)
  const root = join(directory, 'root')
  const proxies: ProxyProcess[] = []
  await fillRoot(root)
  const origin = await ArchiveOrigin.start({ root })
  try {
    const load = await LoadClient.compile(directory)
    for (const name of everybody.filter(name => values.with.split(',').includes(name))) {
      const lacks = lackingProxy(name)
      if (lacks !== false) {
        print(`${lacks}\n`)
        continue
      }
      const domains = [origin.authority]
      const settings = { log: { access: true } }
      const place = { name, directory: join(directory, name), domains, settings }
      proxies.push(await ProxyProcess.start(place))
    }
    const measured: Measured[] = []
    for (const [name, scenario] of Object.entries(scenarios)) {
      if (!values.only.split(',').includes(name)) continue
      // In turn, so that what disturbs the machine for a while disturbs everybody.
      for (let repeat = 0; repeat < Number(values.repeats); repeat += 1) {
        for (const proxy of proxies) {
          if (performance.now() > end) continue
          const serial = `${proxy.name}-${repeat}`
          const figures: Figures = await scenario
            .run({ load, origin, root, proxy, serial })
            .catch((error: Error) => {
              print(`${name}: ${error.message}\n`)
              return {}
            })
          measured.push({ scenario: name, proxy: proxy.name, figures })
        }
      }
      const names = proxies.map(proxy => proxy.name)
      print(
        table(
          scenario,
          names,
          measured.filter(one => one.scenario === name),
        ),
      )
    }
    if (performance.now() > end)
      print(`stopped after ${values.seconds} s: some measurements are missing\n`)
    if (values.json !== undefined)
      await writeFile(values.json, JSON.stringify(measured, undefined, 1))
  } finally {
    for (const proxy of proxies) await proxy.stop()
    await origin.close()
    await rm(directory, { recursive: true })
  }
}

if (values.help) process.stdout.write(usage)
else await bench(text => process.stdout.write(text))
