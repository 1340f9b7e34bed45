/**
 * Whether a request for the operations pages has their password (Basic authentication, RFC 7617).
 *
 * # Facts
 * - Hashing takes a thread some 50 ms. So the password that was right last is remembered as a digest, a client has ten attempts
 *   a minute, and only two hashes are made at once: the threads are those that read the disk.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { isPassword, type PasswordHash } from '../config/password-hash.ts'

type PasswordOutcome = 'right' | 'wrong' | 'too many'

/** Attempts of one client in a minute. */
const mostAttempts = 10
/** Clients whose attempts are counted; beyond it new ones wait for the next minute. */
const mostClients = 1000
const mostAtOnce = 2
const period: Milliseconds = 60_000

export class PasswordCheck {
  readonly #clock: Clock
  #right: { readonly kept: PasswordHash; readonly digest: Buffer } | undefined
  #attempts = new Map<string, number>()
  #since: Milliseconds = 0
  #hashing = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Whether the value of Authorization has the password. The user name can be any. */
  async check(
    kept: PasswordHash,
    authorization: string | undefined,
    client: string,
  ): Promise<PasswordOutcome> {
    const password = passwordIn(authorization)
    if (password === undefined) return 'wrong'
    const digest = createHash('sha256').update(password).digest()
    if (this.#right?.kept === kept && timingSafeEqual(this.#right.digest, digest)) return 'right'
    if (!this.#mayTry(client)) return 'too many'
    this.#hashing += 1
    try {
      if (!(await isPassword(password, kept))) return 'wrong'
      this.#right = { kept, digest }
      this.#attempts.delete(client)
      return 'right'
    } finally {
      this.#hashing -= 1
    }
  }

  #mayTry(client: string): boolean {
    const now = this.#clock.now()
    if (Math.abs(now - this.#since) >= period) {
      this.#attempts.clear()
      this.#since = now
    }
    const before =
      this.#attempts.get(client) ?? (this.#attempts.size < mostClients ? 0 : mostAttempts)
    if (before >= mostAttempts || this.#hashing >= mostAtOnce) return false
    this.#attempts.set(client, before + 1)
    return true
  }
}

/** RFC 7617 section 2: what follows the first colon. */
function passwordIn(authorization = ''): string | undefined {
  const [, credentials = ''] = /^basic +([a-z0-9+/]+={0,2})$/i.exec(authorization) ?? []
  const text = Buffer.from(credentials, 'base64').toString()
  const colon = text.indexOf(':')
  return colon === -1 ? undefined : text.slice(colon + 1)
}
