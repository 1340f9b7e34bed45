/**
 * Switches the defences off, one at a time in a copy of the compiled program, and says whether a test notices.
 *
 *     node dist/test/defences/main.js [number of an attack ...]
 *
 * Writes a table. Ends with 1 when a defence can be switched off unnoticed.
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../../lib/package.ts'
import { type Defence, defences } from './list.ts'

const project = packageRoot()
const wanted = process.argv.slice(2).map(Number)
const compiled = ['dist', 'templates', 'bin', 'package.json']
/** What tests read besides. */
const read = ['docs', 'man', 'lib', 'dev', 'test', 'package-lock.json']
const copy = mkdtempSync(join(tmpdir(), 'defences-'))
for (const name of [...compiled, ...read]) {
  cpSync(join(project, name), join(copy, name), { recursive: true })
}
symlinkSync(join(project, 'node_modules'), join(copy, 'node_modules'))

/** Whether a test ends well within two minutes. */
function passes(test: string): Promise<boolean> {
  const path = join('dist/test', `${test}.js`)
  return new Promise(resolve => {
    const env = { ...process.env, TAP_TIMEOUT: '120' }
    // A test in an endless loop does not hear other signals.
    const killSignal = 'SIGKILL'
    const options = { cwd: copy, env, timeout: 120_000, killSignal, maxBuffer: 1 << 28 } as const
    execFile(process.execPath, [path], options, error => resolve(error === null))
  })
}

const good = new Map<string, Promise<boolean>>()

/** Whether a test passes as things are. One that does not notices nothing. */
function isGood(test: string): Promise<boolean> {
  const known = good.get(test) ?? passes(test)
  good.set(test, known)
  return known
}

/** The first test that notices; undefined when none does. */
async function noticedBy({ file, from, to, tests }: Defence): Promise<string | undefined> {
  const path = join(copy, 'dist/lib', file)
  const whole = readFileSync(path, 'utf8')
  if (whole.split(from).length !== 2) return `NOT ONE PLACE in ${file}: ${from}`
  const without = whole.replace(from, () => to)
  for (const test of tests) {
    if (!(await isGood(test))) continue
    writeFileSync(path, without)
    const notices = !(await passes(test))
    writeFileSync(path, whole)
    if (notices) return test
  }
  return undefined
}

try {
  const chosen = defences.filter(({ attack }) => wanted.length === 0 || wanted.includes(attack))
  process.stdout.write(
    '| No | Defence | Switched off in | Noticed by |\n| --- | --- | --- | --- |\n',
  )
  for (const defence of chosen) {
    const test = await noticedBy(defence)
    if (test === undefined || test.startsWith('NOT')) process.exitCode = 1
    const { attack, what, file } = defence
    process.stdout.write(`| ${attack} | ${what} | ${file} | ${test ?? 'NOTHING'} |\n`)
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}
