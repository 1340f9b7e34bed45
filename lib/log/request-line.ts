/**
 * Writes one request as a short line for a terminal: time, outcome, status, size, duration and target. The columns before the
 * target have one width, so that lines stand below each other. Pure; the facts are clean already.
 */
import { size } from '../figures.ts'
import { printable } from './redact.ts'

/** The terminal that a line is for. */
export interface Terminal {
  /** The number of characters in a line. */
  readonly columns: number
  readonly colours: boolean
}

/** The line without a line feed; undefined when the facts are not those of a request. `time` is `09:00:48`. */
export function requestLine(
  time: string,
  facts: Readonly<Record<string, unknown>>,
  { columns, colours }: Terminal,
): string | undefined {
  const { status, sent, duration, target } = facts
  if (typeof status !== 'number' || typeof sent !== 'number') return
  if (typeof duration !== 'number' || typeof target !== 'string') return
  const { outcome, method, user, because, complete } = facts
  const word = typeof outcome === 'string' ? outcome.toUpperCase() : '-'
  const verdict = `${word.padEnd(widths.outcome)} ${status}`
  const measures = `${size(sent).padStart(widths.size)} ${durationText(duration).padStart(widths.duration)}`
  const asked = method === 'GET' || typeof method !== 'string' ? '' : `${printable(method)} `
  const notes = [
    ...(typeof user === 'string' ? [`user ${user}`] : []),
    ...(status >= 400 && typeof because === 'string' ? [because] : []),
    // Pages of figures end when their reader leaves.
    ...(complete === false && outcome !== 'operations' ? ['broken off'] : []),
  ]
  const end = notes.length === 0 ? '' : ` (${printable(notes.join('; '))})`
  const taken = [time, verdict, measures, asked].join(' ').length + end.length
  const colour = colours ? colourOf(outcome, status) : undefined
  const shown = colour === undefined ? verdict : `\u001b[${colour}m${verdict}\u001b[0m`
  return `${time} ${shown} ${measures} ${asked}${shortTarget(printable(target), columns - taken)}${end}`
}

/** The widths of the longest words of both services, of `1023 bytes` and of `120 min`. */
const widths = { outcome: 9, size: 10, duration: 7 } as const

/** SGR of ECMA-48: 31 red, 32 green, 33 yellow. */
function colourOf(outcome: unknown, status: number): number | undefined {
  if (status >= 500 || outcome === 'failed') return 31
  if (status >= 400) return 33
  return outcome === 'hit' ? 32 : undefined
}

/** `35 ms`, `3.2 s`, `12 min`. */
function durationText(milliseconds: number): string {
  if (milliseconds < 1000) return `${milliseconds.toFixed(0)} ms`
  const seconds = milliseconds / 1000
  if (seconds < 99.95) return `${seconds.toFixed(1)} s`
  return `${(seconds / 60).toFixed(0)} min`
}

/**
 * Shortens host and path to `room` characters. The middle of the path is left out first, then everything before the last
 * characters.
 */
function shortTarget(target: string, room: number): string {
  const whole = target.replace(/^http:\/\//, '')
  if (whole.length <= room) return whole
  const host = /^(?:https:\/\/)?[^/]*/.exec(whole)?.[0] ?? ''
  const name = whole.lastIndexOf('/')
  const short = name > host.length ? `${host} …${whole.slice(name)}` : whole
  if (short.length <= room) return short
  return `…${short.slice(1 - Math.max(room, shortest))}`
}

/** The characters of a target that are written even on a narrow terminal. */
const shortest = 24
