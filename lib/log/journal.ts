/**
 * The priority of a line for the journal: systemd reads `<4>` at the start of a line as its level (sd-daemon(3)) and removes it, so
 * that `journalctl -p warning` shows warnings and errors alone. Every line of an output of several lines needs its own.
 *
 * # Facts
 * - JOURNAL_STREAM has device and inode of the socket to the journal, as systemd.exec(5) says. A child of a service inherits the
 *   variable while its output may go to a file, so the descriptor is compared.
 */
import { fstatSync } from 'node:fs'

/** The levels of sd-daemon(3): SD_DEBUG, SD_INFO, SD_WARNING, SD_ERR. */
const priorities = {
  debug: '<7>',
  info: '<6>',
  warn: '<4>',
  error: '<3>',
} as const

type Level = keyof typeof priorities

/** Whether the descriptor leads to the journal. Never throws. */
export function leadsToJournal(
  fd: number,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  const named = environment['JOURNAL_STREAM']
  if (named === undefined) return false
  try {
    const { dev, ino } = fstatSync(fd, { bigint: true })
    return named === `${dev}:${ino}`
  } catch {
    return false
  }
}

/** The text with the priority of its level before each line that has any text. */
export function withPriority(level: Level, text: string): string {
  return text.replace(/^(?=.)/gm, priorities[level])
}

/** A line for standard error, with its priority when the journal reads it. */
export function errorLine(
  level: Level,
  line: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string {
  return leadsToJournal(2, environment) ? withPriority(level, line) : line
}
