/**
 * The log: one JSON object a line on standard output, or one readable line on a terminal, redacted.
 *
 * # Facts
 * - A thread of libuv writes the lines, not the event loop: a journal that blocks must not stop a proxy. Lines gather for some
 *   milliseconds (gathered-lines.ts); kill -9 loses those. Every orderly end, crashes included, flushes first.
 * - Lines that wait for a slow reader are bounded. Further lines are lost; their number is reported.
 */
import { writev } from 'node:fs'
import { isatty } from 'node:tty'
import { type Clock, systemClock } from '../async/clock.ts'
import { isRecord } from '../json.ts'
import { GatheredLines } from './gathered-lines.ts'
import { leadsToJournal, withPriority } from './journal.ts'
import { jsonLine } from './json-line.ts'
import { clean, cleanText, printable } from './redact.ts'
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
  /** Something an operator should look at; the service goes on. */
  warn(message: string, facts?: LogFacts): void
  /** A failure that was not made good. */
  error(message: string, facts?: LogFacts): void
  /** Whether lines of this level are written; if not, the work of making one can be spared. */
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

/** Takes finished lines, line feed included. */
interface LineWriter {
  write(line: string): unknown
}

interface LogOptions {
  readonly level?: LogLevel
  readonly clock?: Clock
  /** Where lines go; standard output when not given. */
  readonly to?: LineWriter
  /**
   * `json` unless `to` is left out: then `plain` where standard output is a terminal, and `journal`, JSON behind the priority of its
   * level, where it leads to the journal.
   */
  readonly form?: 'json' | 'journal' | 'plain'
}

/** Bytes of lines that wait for a slow reader. */
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

function formOfOutput(): 'json' | 'journal' | 'plain' {
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

/** What all loggers of one log share. */
interface Shared {
  level: number
  readonly write: Write
}

/** `own` facts are clean already, `more` are not. */
type Write = (level: LogLevel, message: string, own: LogFacts, more: LogFacts) => void

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

type Writer = (to: LineWriter, clock: Clock) => Write

const writers: Readonly<Record<'json' | 'journal' | 'plain', Writer>> = {
  json: jsonWriter,
  journal: journalWriter,
  plain: plainWriter,
}

function jsonWriter(to: LineWriter, clock: Clock): Write {
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
function journalWriter(to: LineWriter): Write {
  return (level, message, own, more) =>
    to.write(withPriority(level, jsonLine({ message }, more, own)))
}

/** A request is one short line; other events have the name of each fact. Colours are what people want who do not set NO_COLOR. */
function plainWriter(to: LineWriter, clock: Clock): Write {
  return (level, message, own, more) => {
    const facts = { ...own, ...clean(more) }
    const time = new Date(clock.now()).toTimeString().slice(0, 8)
    const line = message === 'request' ? requestLine(time, facts, terminalOfOutput()) : undefined
    to.write(`${line ?? eventLine(time, level, message, facts)}\n`)
  }
}

function eventLine(time: string, level: LogLevel, message: string, facts: LogFacts): string {
  const { error, ...others } = facts
  const pairs = Object.entries(others).map(([name, value]) => ` ${name}=${plainValue(value)}`)
  const trace = error === undefined ? '' : `\n    ${plainTrace(error)}`
  return `${time} ${level.toUpperCase().padEnd(5)} ${printable(message)}${pairs.join('')}${trace}`
}

/** See no-color.org: any text in NO_COLOR switches colours off. */
function terminalOfOutput(): Terminal {
  const colours = isatty(1) && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
  // Here standard output is a terminal, and the getter changes nothing.
  const columns = isatty(1) ? process.stdout.columns : undefined
  return { columns: columns || 120, colours }
}

function plainValue(value: unknown): string {
  if (typeof value !== 'string') return printable(JSON.stringify(value) ?? 'undefined')
  return /^[\w./:@+[\]-]+$/.test(value) ? value : printable(JSON.stringify(value))
}

function plainTrace(error: unknown): string {
  const stack = isRecord(error) ? error['stack'] : undefined
  const text = typeof stack === 'string' ? stack : JSON.stringify(error)
  return text.split('\n').map(printable).join('\n    ')
}
