/**
 * A password as the configuration keeps it: a salted scrypt hash (RFC 7914) in the PHC string format,
 * `$scrypt$ln=14,r=8,p=1$salt$hash`.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'

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

/** Whether the hash is this password's. Takes a thread some 50 ms. */
export async function isPassword(password: string, { salt, hash }: PasswordHash): Promise<boolean> {
  return timingSafeEqual(await hashed(password, salt, hashSize), hash)
}
