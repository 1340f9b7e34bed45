/**
 * The log: one JSON object a line on standard output, or one readable line where standard output is a terminal. Secrets stop
 * here. The only importer of pino; the rest of the project knows the Logger interface.
 *
 * # Facts
 * - Lines are handed to the kernel by a thread of libuv, not by the event loop: a journal that blocks must not stop a proxy.
 *   A line after a pause leaves at once; those that follow it gather for some milliseconds and leave together, for waking that
 *   thread costs more than making the line.
 * - The price: what was logged in those last milliseconds is lost to kill -9. Every orderly end, crashes included, flushes
 *   first.
 * - What waits is bounded. A reader that has stopped loses lines, never memory; the loss is counted and told.
 */
import { isatty } from 'node:tty'
// biome-ignore lint/style/noRestrictedImports: the one importer
import { pino } from 'pino'
import { GatheredLines } from './gathered-lines.ts'
import { jsonLine } from './json-line.ts'
import { clean, cleanText, printable } from './redact.ts'

/** From the one that says most to the one that says least. */
export const logLevels = ['debug', 'info', 'warn', 'error'] as const

export type LogLevel = (typeof logLevels)[number]

/** Figures and words beside a message. `error` may be anything that was thrown. */
export type LogFacts = Readonly<Record<string, unknown>>

export interface Logger {
  /** For whoever is looking for a fault in our code. */
  debug(message: string, facts?: LogFacts): void
  /** What happened and is as it should be. */
  info(message: string, facts?: LogFacts): void
  /** What somebody should look at; the service goes on. */
  warn(message: string, facts?: LogFacts): void
  /** What failed and was not made good. */
  error(message: string, facts?: LogFacts): void
  /** Whether lines of this level are written: to spare the work of making one. */
  writes(level: LogLevel): boolean
  /** A logger that adds these facts to every line. */
  child(facts: LogFacts): Logger
}

/** The logger at the root of all others: what the daemon holds. */
export interface Log extends Logger {
  /** Sets the least severe level written, for this logger and all its children. */
  setLevel(level: LogLevel): void
  /** Settles when every line so far has been handed to the kernel, or when `deadline` milliseconds have passed. */
  flush(deadline?: number): Promise<void>
}

/** Takes finished lines, line feed included. */
export interface LineWriter {
  write(line: string): unknown
}

export interface LogOptions {
  readonly level?: LogLevel
  /** Where lines go; standard output when not given. */
  readonly to?: LineWriter
  /** `json` unless `to` is left out and standard output is a terminal. */
  readonly form?: 'json' | 'plain'
}

/** Characters of lines that wait for a slow reader. */
const MOST_WAITING = 8 * 1024 * 1024

/** The daemon's log. It never throws: a broken pipe on standard output silences it and nothing more. */
export function createLog(options: LogOptions = {}): Log {
  const output = options.to === undefined ? standardOutput() : { writer: options.to, flush: atOnce }
  // Not process.stdout: looking at it makes a pipe non-blocking, and every full pipe then costs a pause.
  const form = options.form ?? (options.to === undefined && isatty(1) ? 'plain' : 'json')
  const shared: Shared = { level: rank(options.level ?? 'info') }
  const write = form === 'json' ? jsonWriter(output.writer) : plainWriter(output.writer)
  const root = new LoggerOf(shared, write, none)
  return Object.assign(root, {
    setLevel(level: LogLevel) {
      shared.level = rank(level)
    },
    flush: (deadline = 1000) => output.flush(deadline),
  })
}

/** A line as a MemoryLog keeps it: facts redacted as they would be on disk. */
export interface MemoryLine {
  readonly level: LogLevel
  readonly message: string
  readonly facts: LogFacts
}

/** A log that keeps its lines, for tests. */
export function createMemoryLog(
  level: LogLevel = 'debug',
): Log & { readonly lines: readonly MemoryLine[] } {
  const lines: MemoryLine[] = []
  const shared: Shared = { level: rank(level) }
  const root = new LoggerOf(
    shared,
    (level, message, own, more) =>
      lines.push({ level, message, facts: { ...own, ...clean(more) } }),
    {},
  )
  return Object.assign(root, {
    lines,
    setLevel(to: LogLevel) {
      shared.level = rank(to)
    },
    flush: atOnce,
  })
}

/** A log nobody reads. */
export const silentLog: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  writes: () => false,
  child: () => silentLog,
}

interface Shared {
  level: number
}

/** `own` facts are clean already, `more` are not. */
type Write = (level: LogLevel, message: string, own: LogFacts, more: LogFacts) => void

class LoggerOf implements Logger {
  readonly #shared: Shared
  readonly #write: Write
  /** Facts of every line, already clean. */
  readonly #own: LogFacts

  constructor(shared: Shared, write: Write, own: LogFacts) {
    this.#shared = shared
    this.#write = write
    this.#own = own
  }

  debug(message: string, facts?: LogFacts): void {
    this.#log('debug', message, facts)
  }

  info(message: string, facts?: LogFacts): void {
    this.#log('info', message, facts)
  }

  warn(message: string, facts?: LogFacts): void {
    this.#log('warn', message, facts)
  }

  error(message: string, facts?: LogFacts): void {
    this.#log('error', message, facts)
  }

  writes(level: LogLevel): boolean {
    return rank(level) >= this.#shared.level
  }

  child(facts: LogFacts): Logger {
    return new LoggerOf(this.#shared, this.#write, { ...this.#own, ...clean(facts) })
  }

  #log(level: LogLevel, message: string, facts: LogFacts | undefined): void {
    if (rank(level) < this.#shared.level) return
    this.#write(level, cleanText(message), this.#own, facts ?? none)
  }
}

const none: LogFacts = {}

function rank(level: LogLevel): number {
  return ranks[level]
}

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

function jsonWriter(to: LineWriter): Write {
  let lastMoment = 0
  let time = ''
  return (level, message, own, more) => {
    const moment = Date.now()
    if (moment !== lastMoment) {
      lastMoment = moment
      time = new Date(moment).toISOString()
    }
    const facts = own === none ? more : { ...own, ...more }
    to.write(jsonLine({ level, time, message }, facts))
  }
}

function plainWriter(to: LineWriter): Write {
  return (level, message, own, more) => {
    const facts = { ...own, ...clean(more) }
    const time = new Date().toISOString().slice(11, 23)
    const { error, ...others } = facts
    const pairs = Object.entries(others).map(([name, value]) => ` ${name}=${plainValue(value)}`)
    const trace = error === undefined ? '' : `\n    ${plainTrace(error)}`
    to.write(
      `${time} ${level.toUpperCase().padEnd(5)} ${printable(message)}${pairs.join('')}${trace}\n`,
    )
  }
}

function plainValue(value: unknown): string {
  if (typeof value !== 'string') return printable(JSON.stringify(value) ?? 'undefined')
  return /^[\w./:@+[\]-]+$/.test(value) ? value : printable(JSON.stringify(value))
}

function plainTrace(error: unknown): string {
  const stack =
    typeof error === 'object' && error !== null && 'stack' in error ? error.stack : undefined
  const text = typeof stack === 'string' ? stack : JSON.stringify(error)
  return text.split('\n').map(printable).join('\n    ')
}

function atOnce(): Promise<void> {
  return Promise.resolve()
}

function standardOutput(): {
  readonly writer: LineWriter
  readonly flush: (deadline: number) => Promise<void>
} {
  // With a minLength of 0 sonic-boom's flush waits for nothing. Its own bound is met only after an error, when it keeps a
  // text to try it again with the next.
  const destination = pino.destination({
    dest: 1,
    sync: false,
    minLength: 1,
    maxLength: 2 * MOST_WAITING,
  })
  const writer = new GatheredLines(destination, MOST_WAITING)
  return { writer, flush: deadline => writer.flush(deadline) }
}
