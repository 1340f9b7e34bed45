/**
 * Runs compiled test files, in a process of their own or several in one, and reads the TAP it prints: how many assertions passed, what failed, what was
 * skipped and why. Knows TAP 14 as tap prints it: the lines of a subtest stand four spaces further right than those of its parent.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'

export interface TestFile {
  /** Path of the compiled file, relative to the directory of the package. */
  readonly path: string
  /** Whether its process ended with 0 before the limit, and printed a plan. */
  readonly ok: boolean
  /** Its standard output: TAP. */
  readonly tap: string
  /** Its standard error, the last 64 KiB. */
  readonly errors: string
  readonly milliseconds: number
  readonly passed: number
  /** A line for each assertion that failed, or one that says how the process ended. Empty when `ok`. */
  readonly failures: readonly string[]
  /** A line with the reason for each test that was skipped. */
  readonly skips: readonly string[]
}

interface RunOptions {
  readonly cwd: string
  /** Options of Node for the process. */
  readonly nodeOptions: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Milliseconds until the process is ended. */
  readonly limit: number
}

/** The program that runs several files. */
const together = join(import.meta.dirname, 'together.js')

/** Takes the names of the files from the command line first. */
const taken = join(import.meta.dirname, 'arguments.js')

const mostOutput = 64 * 1024 * 1024
const mostErrors = 64 * 1024

/** Runs the file to its end, or to the limit. Rejects when no process can be started. */
export async function runTestFile(path: string, options: RunOptions): Promise<TestFile> {
  const { tap, errors, milliseconds, stopped, ended } = await runProcess([path], options)
  const { planned, ...seen } = readTap(tap)
  const ending = ended ?? (planned ? undefined : 'ran no test')
  const ok = ending === undefined && seen.failures.length === 0
  // A process with a failed assertion ends with 1, which says nothing more.
  const more = ending !== undefined && (stopped || seen.failures.length === 0)
  const failures = more ? [...seen.failures, ending] : seen.failures
  return { path, ok, tap, errors, milliseconds, ...seen, failures }
}

/**
 * Runs the files one after the other in one process. Those that passed, or failed by an assertion, have a result; the others, which were
 * not run to their end or spoilt the end of the process, have to be run alone. Rejects when no process can be started.
 */
export async function runTestFiles(
  paths: readonly string[],
  options: RunOptions,
): Promise<{ readonly results: readonly TestFile[]; readonly unfinished: readonly string[] }> {
  const { tap, errors, ended } = await runProcess(
    [`--import=${taken}`, together, ...paths],
    options,
  )
  const results = paths
    .flatMap(path => resultWithin(tap, path) ?? [])
    .map(one => ({ ...one, errors }))
  const failed = results.some(({ ok }) => !ok)
  const complete = results.length === paths.length && (ended === undefined || failed)
  const kept = complete ? results : results.filter(({ ok }) => ok)
  const unfinished = paths.filter(path => !kept.some(result => result.path === path))
  // All passed, and yet the process did not end well: nobody knows by whose fault.
  if (unfinished.length === 0 && ended !== undefined && !failed)
    return { results: [], unfinished: paths }
  return { results: kept, unfinished }
}

/** What the TAP of several files says of one; undefined when the file was not run to its end. */
function resultWithin(all: string, path: string): Omit<TestFile, 'errors'> | undefined {
  const begin = all.indexOf(`# Subtest: ${path}\n`)
  if (begin === -1) return undefined
  const rest = all.slice(begin).split('\n')
  const last = rest.findIndex((line, at) => at > 0 && /^(not )?ok /.test(line))
  if (last === -1) return undefined
  const own = rest.slice(1, last)
  const point = rest[last] ?? ''
  const details =
    rest[last + 1] === '  ---' ? rest.slice(last + 1, rest.indexOf('  ...', last) + 1) : []
  const { planned, ...seen } = readTap(own.map(line => line.slice(4)).join('\n'))
  const ran = planned && !own.some(line => /^ {4}1\.\.0\b/.test(line))
  const ended = point.startsWith('ok ') && ran
  const failures = ended || seen.failures.length > 0 ? seen.failures : [ran ? point : 'ran no test']
  return {
    ...{ path, ok: failures.length === 0, ...seen, failures },
    tap: [
      ...own.map(line => line.slice(4)),
      ...(failures.length > 0 ? [point, ...details] : []),
    ].join('\n'),
    milliseconds: Number(/ # time=([\d.]+)ms/.exec(point)?.[1] ?? 0),
  }
}

interface ProcessResult {
  readonly tap: string
  readonly errors: string
  readonly milliseconds: number
  /** Whether it had to be ended. */
  readonly stopped: boolean
  /** How it ended; undefined when that was with 0. */
  readonly ended: string | undefined
}

function runProcess(args: readonly string[], options: RunOptions): Promise<ProcessResult> {
  const { cwd, nodeOptions, env, limit } = options
  const started = performance.now()
  const child = spawn(process.execPath, ['--enable-source-maps', ...nodeOptions, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let tap = ''
  let errors = ''
  let stopped: string | undefined
  const stop = (why: string) => {
    stopped ??= why
    // tap answers SIGALRM with a list of what is still open.
    child.kill('SIGALRM')
    timers.push(setTimeout(() => child.kill('SIGKILL'), 5000))
  }
  const timers = [setTimeout(() => stop(`did not end within ${limit / 1000} s`), limit)]
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (tap.length <= mostOutput) tap += text
    else if (stopped === undefined) stop(`printed more than ${mostOutput} characters`)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-mostErrors)
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      for (const timer of timers) clearTimeout(timer)
      const ended = stopped ?? howItEnded(code, signal)
      const milliseconds = performance.now() - started
      resolve({ tap, errors, milliseconds, stopped: stopped !== undefined, ended })
    })
  })
}

/** Undefined when the process ended with 0. */
function howItEnded(code: number | null, signal: string | null): string | undefined {
  if (signal !== null) return `ended by ${signal}`
  return code === 0 ? undefined : `ended with exit code ${code}`
}

/** What a TAP stream says. Each failure and each skip is named by the tests it is in, from the outside in. */
export function readTap(
  tap: string,
): Pick<TestFile, 'passed' | 'failures' | 'skips'> & { readonly planned: boolean } {
  const failures: string[] = []
  const skips: string[] = []
  /** The subtests that are open, by depth, each with the number of failures before it. */
  const open: { name: string; before: number }[] = []
  let passed = 0
  let planned = false
  /** How far the block of details is indented that these lines are in. */
  let details: number | undefined
  for (const line of tap.split('\n')) {
    const indent = line.search(/\S|$/)
    const text = line.slice(indent)
    if (details !== undefined) {
      if (text === '...' && indent === details) details = undefined
      continue
    }
    if (text === '---') details = indent
    if (indent === 0 && /^1\.\.\d/.test(text)) planned = true
    const depth = indent / 4
    const subtest = /^# Subtest: (.*)$/.exec(text)
    if (subtest !== null) {
      open.length = depth
      open.push({ name: plain(subtest[1]), before: failures.length })
      continue
    }
    const point = /^(not )?ok \d+(?: - (.*))?$/.exec(text)
    if (point === null) continue
    const [, failed, rest = ''] = point
    const [, label, directive, reason = ''] =
      /^(.*?)(?: # (SKIP|TODO|time=)\b:?\s*(.*))?$/i.exec(rest) ?? []
    const name = plain(label)
    const ended = open[depth]?.name === name ? open[depth] : undefined
    open.length = Math.min(open.length, depth)
    const whole = [...open.map(({ name }) => name), name].join(' > ')
    if (directive?.toUpperCase() === 'SKIP') skips.push(`${whole}: ${plain(reason)}`)
    else if (directive?.toUpperCase() === 'TODO') continue
    else if (failed === undefined) passed += ended === undefined ? 1 : 0
    // The `not ok` of a subtest adds nothing to those of its assertions.
    else if (ended === undefined || ended.before === failures.length) failures.push(whole)
  }
  return { passed, failures, skips, planned }
}

/** A name without the backslashes that TAP has before `#` and a backslash. */
function plain(text = ''): string {
  return text.replace(/\\([#\\])/g, '$1')
}
