/**
 * Writes figures for people: sizes, counts, rates, durations, moments. Sizes are in binary units (IEC 80000-13), counts in groups of three,
 * moments in UTC.
 */
import { day, hour, type Milliseconds } from './async/clock.ts'

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const

/** A size in the largest unit that leaves at least 1, with three significant digits: `1.46 GiB`, `812 KiB`, `17 bytes`. */
export function size(bytes: number): string {
  let value = bytes
  let unit = 0
  // 1023.5 would be written as 1024, so it belongs to the next unit.
  while (value >= (unit === 0 ? 1024 : 1023.5) && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  if (unit === 0) return value === 1 ? '1 byte' : `${value} bytes`
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0
  return `${value.toFixed(digits)} ${units[unit]}`
}

/** A size in words, its bytes for people, and its bytes for programs. */
export function sizeView(bytes: number): Readonly<Record<'size' | 'bytes' | 'plain', string>> {
  return { size: size(bytes), bytes: count(bytes), plain: bytes.toFixed(0) }
}

/** A size as an axis names it, without zeros at its end: `1.5 GiB`, `512 MiB`. */
export function shortSize(bytes: number): string {
  return bytes === 0
    ? '0'
    : size(bytes)
        .replace(/(\.\d*?)0+ /, '$1 ')
        .replace('. ', ' ')
}

/** A whole number with its thousands apart: `1,268,435,456`. */
export function count(value: number): string {
  return value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ',')
}

/** A whole number as an axis names it: `800`, `2,000`, `15k`, `1.5M`. */
export function shortCount(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toFixed(2))}M`
  return value >= 1e4 ? `${Number((value / 1e3).toFixed(2))}k` : count(value)
}

/** `1 request`, `2 requests`. */
export function countOf(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`
}

/** A rate from 0 to 1 as `87.3%`. Only 1 is written as 100%, and only 0 as 0%. */
export function percent(rate: number): string {
  if (rate === 0 || rate === 1) return `${rate * 100}%`
  const rounded = Math.min(99.9, Math.max(0.1, rate * 100))
  return `${rounded.toFixed(1)}%`
}

/** A duration in its largest whole unit: `5 minutes`, `1 day`, `90 seconds`. */
export function duration(milliseconds: Milliseconds): string {
  const steps = [
    [day, 'day'],
    [hour, 'hour'],
    [60_000, 'minute'],
    [1_000, 'second'],
  ] as const
  for (const [length, noun] of steps) {
    if (milliseconds >= length && milliseconds % length === 0)
      return countOf(milliseconds / length, noun)
  }
  return countOf(milliseconds, 'millisecond')
}

/** The length of a time in its two largest units: `3 days 4 hours`, `12 minutes`, `less than a minute`. */
export function elapsedText(milliseconds: Milliseconds): string {
  const minutes = Math.floor(milliseconds / 60_000)
  const parts = [
    [Math.floor(minutes / 1440), 'day'],
    [Math.floor(minutes / 60) % 24, 'hour'],
    [minutes % 60, 'minute'],
  ] as const
  const first = parts.findIndex(([value]) => value > 0)
  if (first < 0) return 'less than a minute'
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, noun]) => countOf(value, noun))
    .join(' ')
}

/** A rate with the digits that are useful: `0.05`, `3.2`, `1,240`. */
export function rate(value: number): string {
  if (value >= 100) return count(value)
  return String(Number(value.toFixed(value >= 10 ? 1 : 2)))
}

/** `2025-03-14` */
export function date(at: Milliseconds): string {
  return new Date(at).toISOString().slice(0, 10)
}

/** `2025-03-14 11:55 UTC` */
export function moment(at: Milliseconds): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

/** `11:55:03` */
export function timeOfDay(at: Milliseconds): string {
  return new Date(at).toISOString().slice(11, 19)
}
