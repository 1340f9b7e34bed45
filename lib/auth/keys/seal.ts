/**
 * Seals values that browsers keep and must neither read nor change, by AES-256-GCM. The newest key seals, and all keys open. A
 * sealed value is the key ID, a dot, and base64url of nonce, ciphertext and tag.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import type { SealingKey } from './dynamic-config.ts'

const NONCE = 12
const TAG = 16

/** Seals `plain` for one `purpose`; a sealed value opens for its own purpose alone. Throws when there is no key. */
export function seal(
  plain: Buffer,
  purpose: string,
  keys: readonly SealingKey[],
  random: (size: number) => Buffer,
): string {
  const [newest] = keys
  if (newest === undefined) throw new Error('there is no key to seal with')
  const nonce = random(NONCE)
  const cipher = createCipheriv('aes-256-gcm', newest.key, nonce)
  cipher.setAAD(Buffer.from(purpose))
  const sealed = Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
  return `${newest.kid}.${sealed.toString('base64url')}`
}

/** The text of a sealed value; undefined when it was not sealed by one of these keys for this purpose. */
export function unseal(
  text: string,
  purpose: string,
  keys: readonly SealingKey[],
): Buffer | undefined {
  const dot = text.lastIndexOf('.')
  const key = keys.find(({ kid }) => kid === text.slice(0, Math.max(dot, 0)))
  const encoded = text.slice(dot + 1)
  if (key === undefined || !/^[\w-]+$/.test(encoded)) return undefined
  const sealed = Buffer.from(encoded, 'base64url')
  if (sealed.length < NONCE + TAG) return undefined
  try {
    const nonce = sealed.subarray(0, NONCE)
    const cipher = createDecipheriv('aes-256-gcm', key.key, nonce, { authTagLength: TAG })
    cipher.setAAD(Buffer.from(purpose))
    cipher.setAuthTag(sealed.subarray(sealed.length - TAG))
    return Buffer.concat([
      cipher.update(sealed.subarray(NONCE, sealed.length - TAG)),
      cipher.final(),
    ])
  } catch {
    return undefined
  }
}
