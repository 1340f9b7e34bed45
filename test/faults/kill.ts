/**
 * The proxy is killed in the middle of downloads, twenty times at moments from a seed: no wrong byte is ever served, what was
 * finished is a hit afterwards. KILL_SEED repeats a run.
 */
import { readFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { type PackageSpec, poolPath } from '../fixtures/archive/package-file.ts'
import { type Lab, noLab, setUp } from '../fixtures/cache/lab.ts'
import { Noise } from '../fixtures/chance/noise.ts'

const { KILL_SEED: seed = '1' } = process.env
const rounds = 20
/** Packages asked for in one round. */
const perRound = 5
/** Bytes a second from the origin: the largest package takes half a second. */
const rate = 6_000_000
/** Milliseconds: what a client had whole this long before the kill has to be stored, on a slow and busy disk too. */
const settled = 2000

const packages: PackageSpec[] = Array.from({ length: rounds * perRound }, (_, i) => ({
  name: `p${String(i).padStart(3, '0')}`,
  version: '1.0',
  size: [20_000, 200_000, 700_000, 1_500_000, 3_000_000][i % perRound] ?? 1000,
}))

t.setTimeout(600_000)

t.test(`${rounds} kills, seed ${seed}`, { skip: noLab }, async t => {
  const lab = await setUp(t, { packages })
  const noise = new Noise(seed)
  lab.origin.rate = rate
  const content = new Map<string, Buffer>()
  for (const spec of packages) {
    const path = `/debian/${poolPath(spec)}`
    content.set(path, await readFile(join(lab.archive.root, path)))
  }
  const paths = [...content.keys()]
  /** When a client last had it whole. */
  const ends = new Map<string, number>()
  const finished = new Set<string>()
  const fetchedAgain: string[] = []
  let wrong = 0
  let cut = 0

  for (let round = 0; round < rounds; round += 1) {
    const asked = paths.slice(round * perRound, (round + 1) * perRound)
    const downloads = asked.map(async path => {
      const { whole, bytes } = await download(lab, path)
      if (whole) ends.set(path, performance.now())
      else cut += 1
      if (!isRight(bytes, content.get(path), whole)) wrong += 1
    })
    await pause(20 + noise.below(800))
    const killed = performance.now()
    lab.replace(await lab.proxy.restart(undefined, 'SIGKILL'))
    await Promise.all(downloads)
    for (const [path, end] of ends) if (end < killed - settled) finished.add(path)

    // Two at random of all so far, and all of this round: whatever their state, the bytes are right. Only what is to be cut has to be slow.
    lab.origin.forget()
    lab.origin.rate = undefined
    for (const path of [
      ...asked,
      noise.pick([asked[0] ?? '', ...paths.slice(0, round * perRound)]),
    ]) {
      const again = await download(lab, path)
      if (!again.whole || !isRight(again.bytes, content.get(path), true)) wrong += 1
      ends.set(path, performance.now())
    }
    const targets = lab.origin.requests.map(request => request.target)
    fetchedAgain.push(...targets.filter(target => finished.has(target)))
    lab.origin.rate = rate
  }
  lab.origin.rate = undefined
  t.comment(`${cut} downloads were cut by a kill`)
  t.equal(wrong, 0, 'no wrong byte')
  t.strictSame(fetchedAgain, [], 'what was finished before a kill was not fetched again')
  t.ok(cut >= rounds / 2, 'the kills did hit downloads')

  // A kill may have come between a client's last byte and the commit: once more for all, and then everything is there.
  for (const path of paths) {
    const { whole, bytes } = await download(lab, path)
    if (!whole || !isRight(bytes, content.get(path), true)) wrong += 1
  }
  await until(lab, 'cachesvc_fetches_under_way 0')
  await until(lab, 'cachesvc_files_being_written 0')
  lab.replace(await lab.proxy.restart(undefined, 'SIGKILL'))
  lab.origin.forget()
  for (const path of paths) {
    const { whole, bytes } = await download(lab, path)
    if (!whole || !isRight(bytes, content.get(path), true)) wrong += 1
  }
  t.equal(wrong, 0, 'nor in the end')
  t.strictSame(
    lab.origin.requests.map(request => request.target),
    [],
    'and everything is a hit',
  )
})

/** Whether the bytes are the content, or its beginning when the download was cut. */
function isRight(bytes: Buffer, content: Buffer | undefined, whole: boolean): boolean {
  if (content === undefined) return false
  return bytes.equals(whole ? content : content.subarray(0, bytes.length))
}

/** What came of a download: every byte that arrived, and whether the answer was complete. */
function download(lab: Lab, path: string): Promise<{ whole: boolean; bytes: Buffer }> {
  return new Promise(resolve => {
    const chunks: Buffer[] = []
    const settle = (whole: boolean) => resolve({ whole, bytes: Buffer.concat(chunks) })
    const url = lab.origin.url + path
    const options = { host: '127.0.0.1', port: lab.proxy.port, path: url, agent: false as const }
    const request = get({ ...options, headers: { Host: lab.origin.authority } }, response => {
      // An error's text is no content.
      if (response.statusCode !== 200) {
        response.resume().on('close', () => settle(false))
        return
      }
      response.on('data', chunk => chunks.push(chunk))
      response.on('error', () => {})
      response.on('close', () => settle(response.complete))
    })
    request.on('error', () => settle(false))
    request.setTimeout(120_000, () => request.destroy())
  })
}

/** Waits until the metrics of the proxy have this line. */
async function until(lab: Lab, line: string): Promise<void> {
  for (;;) {
    const metrics = await fetch(`${lab.proxy.url}/_cachesvc/metrics`)
    if ((await metrics.text()).split('\n').includes(line)) return
    await pause(50)
  }
}
