/**
 * A short response written straight onto a socket that no longer belongs to Node's HTTP server, after which the connection ends.
 */
import { STATUS_CODES } from 'node:http'
import type { Response } from './message.ts'

/** The response as bytes. Its content must be in memory; anything else is left out. */
export function rawRefusal(response: Response): { bytes: Buffer; contentLength: number } {
  const { content } = response
  const bytes = content.kind === 'bytes' ? content.bytes : Buffer.alloc(0)
  const reason = response.reason ?? STATUS_CODES[response.status] ?? ''
  const lines = [`HTTP/1.1 ${response.status} ${reason}`]
  for (const [name, value] of response.fields) lines.push(`${name}: ${value}`)
  lines.push(`Content-Length: ${bytes.length}`, 'Connection: close')
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  return { bytes: Buffer.concat([head, bytes]), contentLength: bytes.length }
}
