/**
 * Writes the log: one JSON object a line on standard output, or one readable line on a terminal, both redacted.
 *
 * # Facts
 * - A thread of libuv writes the lines, not the event loop: a journal that blocks must not stop a proxy. Lines gather for some
 *   milliseconds (`GatheredLines`); kill -9 loses those. Every orderly end, crashes included, flushes first.
 * - Lines that wait for a slow reader are bounded. Further lines are lost; their number is reported.
 */
import { writev } from 'node:fs'
import { isatty } from 'node:tty'
import { type Clock, keepAlive, type Milliseconds, systemClock } from '../async/clock.ts'
import { resultInTime } from '../async/deadline.ts'
import { systemCode } from '../errors.ts'
import { isRecord } from '../json.ts'
import { leadsToJournal, withPriority } from './journal.ts'
import { clean, cleanText, jsonLine, printable } from './redact.ts'
import { requestLine, type Terminal } from './request-line.ts'

/** From the least severe to the most severe. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Facts beside a message. `error` may be anything that was thrown. */
export type LogFacts = Readonly<Record<string, unknown>>

export interface Logger {
  /** Details for finding a fault in the code. */
  debug(message: string, facts?: LogFacts): void
  /** An expected event. */
  info(message: string, facts?: LogFacts): void
  /** An event that an operator should look at; the service goes on. */
  warn(message: string, facts?: LogFacts): void
  /** A failure that the service could not correct. */
  error(message: string, facts?: LogFacts): void
  /** Whether lines of this level are written. If not, the caller need not make one. */
  writes(level: LogLevel): boolean
  /** A logger that adds these facts to every line. */
  child(facts: LogFacts): Logger
}

/** The logger of a process, from which all others come. */
export interface Log extends Logger {
  /** Sets the least severe level written, for this logger and all its children. */
  setLevel(level: LogLevel): void
  /** Settles when every line so far has been handed to the kernel, or when `deadline` milliseconds have passed. */
  flush(deadline?: number): Promise<void>
}

/** Receives finished lines, line feed included. */
interface LineWriter {
  write(line: string): unknown
}

interface LogOptions {
  readonly level?: LogLevel
  readonly clock?: Clock
  /** The destination of the lines; standard output when not given. */
  readonly to?: LineWriter
  /**
   * `json` unless `to` is left out: then `plain` where standard output is a terminal, and `journal`, JSON behind the priority of its
   * level, where it leads to the journal.
   */
  readonly form?: keyof typeof writers
}

/** The most bytes of lines that wait for a slow reader. */
const MOST_WAITING = 8 * 1024 * 1024

/** The daemon's log. It never throws: a broken pipe on standard output only ends its output. */
export function createLog(options: LogOptions = {}): Log {
  const { to, level = 'info', clock = systemClock } = options
  // The getter of process.stdout makes a pipe non-blocking, and every full pipe then costs a pause. So it is not used.
  const form = options.form ?? (to === undefined ? formOfOutput() : 'json')
  const asWarning = (line: string) => (form === 'journal' ? withPriority('warn', line) : line)
  const write = (parts: Buffer[], done: (error: Error | null, written: number) => void) =>
    writev(1, parts, done)
  const lines = new GatheredLines(write, { clock, most: MOST_WAITING, asWarning })
  const shared: Shared = { level: ranks[level], write: writers[form](to ?? lines, clock) }
  return Object.assign(loggerOf(shared, none), {
    setLevel(next: LogLevel) {
      shared.level = ranks[next]
    },
    flush: (deadline = 1000) => lines.flush(deadline),
  })
}

function formOfOutput(): keyof typeof writers {
  if (isatty(1)) return 'plain'
  return leadsToJournal(1) ? 'journal' : 'json'
}

/** A log that writes nothing. */
export const silentLog: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  writes: () => false,
  child: () => silentLog,
}

/** The parts that all loggers of one log share. */
interface Shared {
  level: number
  readonly write: WriteEntry
}

/** `own` facts are clean already, `more` are not. */
type WriteEntry = (level: LogLevel, message: string, own: LogFacts, more: LogFacts) => void

const none: LogFacts = {}

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

/** A logger that adds its own facts, which are clean, to every line. */
function loggerOf(shared: Shared, own: LogFacts): Logger {
  const at =
    (level: LogLevel) =>
    (message: string, facts = none) => {
      if (ranks[level] >= shared.level) shared.write(level, cleanText(message), own, facts)
    }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    writes: level => ranks[level] >= shared.level,
    child: facts => loggerOf(shared, { ...own, ...clean(facts) }),
  }
}

const writers = { json: jsonWriter, journal: journalWriter, plain: plainWriter } as const

function jsonWriter(to: LineWriter, clock: Clock): WriteEntry {
  let lastMoment = 0
  let time = ''
  return (level, message, own, more) => {
    const moment = clock.now()
    if (moment !== lastMoment) {
      lastMoment = moment
      time = new Date(moment).toISOString()
    }
    to.write(jsonLine({ level, time, message }, more, own))
  }
}

/** The journal keeps the level and the time of a line itself. */
function journalWriter(to: LineWriter): WriteEntry {
  return (level, message, own, more) =>
    to.write(withPriority(level, jsonLine({ message }, more, own)))
}

/**
 * Writes a request as one short line, and other events with the name of each fact. Lines have colours unless NO_COLOR is set.
 */
function plainWriter(to: LineWriter, clock: Clock): WriteEntry {
  return (level, message, own, more) => {
    const facts = { ...own, ...clean(more) }
    const time = new Date(clock.now()).toTimeString().slice(0, 8)
    const line = message === 'request' ? requestLine(time, facts, terminalOfOutput()) : undefined
    to.write(`${line ?? eventLine(time, level, message, facts)}\n`)
  }
}

function eventLine(time: string, level: LogLevel, message: string, facts: LogFacts): string {
  const { error, ...others } = facts
  const pairs = flat(others).map(
    ([name, value]) =>
      ` ${name}=${/(^|\.)at$/.test(name) ? plainMoment(value) : plainValue(value)}`,
  )
  const trace = error === undefined ? '' : `\n    ${plainTrace(error)}`
  return `${time} ${level.toUpperCase().padEnd(5)} ${printable(message)}${pairs.join('')}${trace}`
}

/** See no-color.org: any text in NO_COLOR switches colours off. */
function terminalOfOutput(): Terminal {
  const colours = isatty(1) && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
  // Standard output is a terminal here, so the getter of process.stdout does no harm.
  const columns = isatty(1) ? process.stdout.columns : undefined
  return { columns: columns || 120, colours }
}

/** Facts within a fact, each with both names: `ends.because`. */
function flat(facts: LogFacts): readonly (readonly [string, unknown])[] {
  return Object.entries(facts).flatMap(([name, value]) =>
    isRecord(value)
      ? flat(value).map(([inner, fact]) => [`${name}.${inner}`, fact] as const)
      : [[name, value] as const],
  )
}

/** A value as a person reads it, of a digest the beginning. */
function plainValue(value: unknown): string {
  if (typeof value !== 'string') return printable(JSON.stringify(value) ?? 'undefined')
  if (/^[0-9a-f]{40,}$/i.test(value)) return `${value.slice(0, 16)}…`
  return /^[\w./:@+[\]-]+$/.test(value) ? value : printable(JSON.stringify(value))
}

/** The value of a fact `at`: a moment in milliseconds as its date and time. */
function plainMoment(value: unknown): string {
  const at = new Date(typeof value === 'number' ? value : Number.NaN)
  return Number.isNaN(at.getTime()) ? plainValue(value) : `${at.toISOString().slice(0, 19)}Z`
}

function plainTrace(error: unknown): string {
  const stack = isRecord(error) ? error['stack'] : undefined
  const text = typeof stack === 'string' ? stack : JSON.stringify(error)
  return text.split('\n').map(printable).join('\n    ')
}

/** Writes bytes one behind the other as `fs.writev` does: `done` gets an error, or how many were written. */
type WriteBytes = (parts: Buffer[], done: (error: Error | null, written: number) => void) => void

/** The time for which lines are gathered after a write. kill -9 loses these lines. */
const gathering: Milliseconds = 20

/** The time after which a full pipe is tried again. */
const retry: Milliseconds = 20

/** The shortest time between two reports of lost lines. */
const tellingInterval: Milliseconds = 1000

/** The size of a block in which lines wait. Blocks are used again, and a few unused ones are kept. */
const blockBytes = 64 * 1024
const mostSpare = 8
/** The number of blocks that one call writes. */
const mostTogether = 16

/** A sequence of lines in memory. */
interface Batch {
  readonly bytes: Buffer
  readonly lines: number
  /** The block of the lines; undefined for a line too long for a block, whose memory may be shared. */
  readonly block: Buffer | undefined
}

interface GatheredOptions {
  readonly clock: Clock
  /** The most bytes that wait; further lines are lost. */
  readonly most: number
  /** Marks the line about lost lines like the other lines of the writer. */
  readonly asWarning?: (line: string) => string
}

/**
 * Writes log lines to a destination that may be slow: gathered for some milliseconds, one call at a time, bounded, and counted
 * when they are lost.
 *
 * # Facts
 * - Every write wakes a thread of libuv. With a write for every line a fifth of the cost of a warm hit was spent there. So a
 *   line after a pause is written at once, and those that follow gather until that write and `gathering` are over.
 * - A write is over in a later turn of the event loop, and with 500 clients a turn has more lines than a block holds. So a write takes
 *   many blocks; with one a turn they waited until lines were lost.
 * - The other end of a pipe can set it non-blocking: a full pipe is then an error (EAGAIN) instead of a wait.
 */
export class GatheredLines {
  readonly #write: WriteBytes
  readonly #options: GatheredOptions
  /** The block in which lines are gathered. They are encoded at once, so that their facts can be collected. */
  #block: Buffer = Buffer.allocUnsafeSlow(blockBytes)
  #used = 0
  #lines = 0
  /** The batches that wait before the present block. */
  #full: Batch[] = []
  #waiting = 0
  #lost = 0
  #lastTold = Number.NEGATIVE_INFINITY
  #writing = false
  readonly #spare: Buffer[] = []
  /** Whether lines are gathered because a write began less than `gathering` ago. */
  #gathers = false
  /** Whether the reader has closed the destination. */
  #closed = false
  #flushed: (() => void)[] = []

  constructor(write: WriteBytes, options: GatheredOptions) {
    this.#write = write
    this.#options = options
  }

  /** One line with its line feed. */
  write(line: string): void {
    if (this.#closed) return
    if (this.#lost > 0) {
      const since = this.#options.clock.elapsed() - this.#lastTold
      if (since >= tellingInterval) this.#tellLoss()
    }
    this.#gather(line)
    if (!this.#gathers) this.#send()
  }

  /** Settles when every line so far has been handed to the kernel, or after the deadline. */
  async flush(deadline: Milliseconds): Promise<void> {
    if (this.#lost > 0) this.#tellLoss()
    this.#send()
    if (!this.#writing) return
    const flushed = new Promise<void>(settle => this.#flushed.push(settle))
    await keepAlive(resultInTime(flushed, this.#options.clock, deadline))
  }

  #gather(line: string): void {
    if (this.#waiting + line.length > this.#options.most) {
      this.#lost += 1
      return
    }
    // In UTF-8 a line takes at most three bytes for each of its characters.
    if (this.#used + 3 * line.length > blockBytes) this.#seal()
    const long = 3 * line.length > blockBytes
    if (long) this.#full.push({ bytes: Buffer.from(line), lines: 1, block: undefined })
    const bytes = long ? Buffer.byteLength(line) : this.#block.write(line, this.#used)
    this.#waiting += bytes
    if (long) return
    this.#used += bytes
    this.#lines += 1
  }

  /** Puts the block behind the waiting batches, and takes another one. */
  #seal(): void {
    if (this.#lines === 0) return
    const block = this.#block
    this.#full.push({ bytes: block.subarray(0, this.#used), lines: this.#lines, block })
    this.#block = this.#spare.pop() ?? Buffer.allocUnsafeSlow(blockBytes)
    this.#used = 0
    this.#lines = 0
  }

  #send(): void {
    if (this.#writing) return
    this.#seal()
    const batches = this.#full.splice(0, mostTogether)
    if (batches.length === 0) return
    for (const { bytes } of batches) this.#waiting -= bytes.length
    this.#writing = true
    if (!this.#gathers) {
      this.#gathers = true
      this.#options.clock.after(gathering, () => {
        this.#gathers = false
        this.#send()
      })
    }
    this.#writeAll(
      batches.map(({ bytes }) => bytes),
      batches,
    )
  }

  /** Writes `rest`, the end of `batches`. */
  #writeAll(rest: Buffer[], batches: readonly Batch[]): void {
    this.#write(rest, (error, written) => {
      const code = error === null ? undefined : systemCode(error)
      if (code === 'EAGAIN') {
        this.#options.clock.after(retry, () => this.#writeAll(rest, batches))
        return
      }
      const left = error === null ? behind(rest, written) : []
      if (left.length > 0) return this.#writeAll(left, batches)
      this.#writing = false
      if (code === 'EPIPE') this.#close()
      else if (error !== null) {
        for (const { lines } of batches.slice(-rest.length)) this.#lost += lines
      }
      for (const { block } of batches) {
        if (block !== undefined && this.#spare.length < mostSpare) this.#spare.push(block)
      }
      if (!this.#gathers || this.#flushed.length + this.#full.length > 0) this.#send()
      if (this.#writing) return
      for (const settle of this.#flushed.splice(0)) settle()
    })
  }

  #close(): void {
    this.#closed = true
    this.#full = []
    this.#lines = 0
    this.#lost = 0
  }

  #tellLoss(): void {
    const { clock, asWarning = String } = this.#options
    this.#lastTold = clock.elapsed()
    const lines = this.#lost
    this.#lost = 0
    const message = 'log lines were lost: they were not read in time'
    const line = { level: 'warn', time: new Date(clock.now()).toISOString(), message, lines }
    this.#gather(asWarning(`${JSON.stringify(line)}\n`))
    // There was no room for the report either, so it is written later.
    if (this.#lost > 0) this.#lost = lines
  }
}

/** The rest of the parts after their first bytes. */
function behind(parts: readonly Buffer[], written: number): Buffer[] {
  let from = written
  return parts.flatMap(part => {
    const rest = part.subarray(Math.min(from, part.length))
    from -= part.length - rest.length
    return rest.length === 0 ? [] : [rest]
  })
}
