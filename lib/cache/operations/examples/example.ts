/**
 * The form of an example, and the setting all examples are made from.
 */

import type { HttpsMode } from '../../intercept/https.ts'
import type { Endpoint } from '../endpoint.ts'

/** Something to paste. */
export interface Example {
  /** Unique on the page: the end of its link. */
  readonly id: string
  readonly title: string
  readonly intro: string
  /** Where it goes: a file's name, or `Shell`. */
  readonly place: string
  readonly text: string
  readonly notes: readonly string[]
}

/** A group of examples under one heading. */
export interface Chapter {
  readonly id: string
  readonly title: string
  readonly examples: readonly Example[]
}

export interface Setting {
  readonly here: Endpoint
  readonly ports: readonly number[]
  readonly httpsMode: HttpsMode
  /** Of the CA's certificate, when there is a CA. */
  readonly fingerprint?: string | undefined
  /** `https://cache.example.org:3143`, when there is a listener for TLS. */
  readonly secureUrl?: string | undefined
  /** Host names of archives to name in examples, never empty. */
  readonly archives: readonly [string, ...string[]]
}

/** The file apt reads the proxy from in all examples. */
export const aptFile = '/etc/apt/apt.conf.d/30cachesvc'

/** The one line of apt.conf that is enough. */
export function proxyLine({ here }: Pick<Setting, 'here'>): string {
  return `Acquire::http::Proxy "${here.url}";`
}

/** An example without notes unless told. */
export function example(
  place: string,
  words: Omit<Example, 'place' | 'notes'> & Partial<Pick<Example, 'notes'>>,
): Example {
  return { place, notes: [], ...words }
}
