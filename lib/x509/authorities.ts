/**
 * Reads the file of authorities that a setting names, for backends and stores whose certificate no well-known authority has signed.
 */

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { attempt, Failure, unreadableReason } from '../errors.ts'

/** The authorities in a PEM file; undefined without a file. Throws a Failure that names the setting. */
export function authoritiesIn(
  file: string | undefined,
  name: string,
): readonly string[] | undefined {
  if (file === undefined) return undefined
  const code = 'TARGET_CERTIFICATES'
  const setting = `${name} ${file}`
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Failure(`cannot read ${setting}: ${unreadableReason(cause)}`, { code, cause })
  }
  // Node would ignore any other block without an error, and then every request would fail.
  const blocks = text.match(PEM_BLOCKS) ?? []
  if (blocks.length === 0) throw new Failure(`${setting} holds no certificate in PEM`, { code })
  const isCertificate = (pem: string) => attempt(() => new X509Certificate(pem)) !== undefined
  if (blocks.every(isCertificate)) return [text]
  throw new Failure(`${setting} holds a certificate that is damaged or cut off`, { code })
}

/** PEM blocks with a certificate, also those whose end is missing. */
const PEM_BLOCKS = /-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----[^-]*(?:-----END \1-----)?/g
