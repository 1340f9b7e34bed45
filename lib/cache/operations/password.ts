/**
 * The password of the operations pages: how it is kept, and whether a request has it (Basic authentication, RFC 7617).
 *
 * # Facts
 * - It is kept as a salted scrypt hash (RFC 7914), written in the PHC string format: `$scrypt$ln=14,r=8,p=1$salt$hash`.
 * - Hashing takes a thread some 50 ms. So the password that was right last is remembered as a digest, a client has ten attempts
 *   a minute, and only two hashes are made at once: the threads are those that read the disk.
 */
import { createHash, randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import type { Clock, Milliseconds } from '../../async/clock.ts'

export interface PasswordHash {
  readonly salt: Buffer
  readonly hash: Buffer
}

const hashed = promisify<string, Buffer, number, Buffer>(scrypt)
const hashSize = 32
/** The parameters that node:crypto has unless told: N = 2^14, r = 8, p = 1. */
const parameters = '$scrypt$ln=14,r=8,p=1$'

/** The line that the configuration has in place of a password. */
export async function hashLine(password: string): Promise<string> {
  const salt = randomBytes(16)
  const parts = [salt, await hashed(password, salt, hashSize)]
  return parameters + parts.map(part => part.toString('base64').replace(/=+$/, '')).join('$')
}

/** Reads such a line; undefined when it is none. */
export function readHashLine(line: string): PasswordHash | undefined {
  if (!line.startsWith(parameters)) return undefined
  const [salt, hash, ...more] = line
    .slice(parameters.length)
    .split('$')
    .map(part => Buffer.from(part, 'base64'))
  if (salt === undefined || hash?.length !== hashSize || more.length > 0) return undefined
  return { salt, hash }
}

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
      if (!timingSafeEqual(await hashed(password, kept.salt, hashSize), kept.hash)) return 'wrong'
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
