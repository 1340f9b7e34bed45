/**
 * A short response written straight onto a socket that no longer belongs to Node's HTTP server, after which the connection ends.
 */
import { STATUS_CODES } from 'node:http'
import type { Response } from '../message/message.ts'

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

/** What to answer when Node's parser refuses a head with this code. */
export function headProblem(code: string): { status: number; sentence: string } {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return {
        status: 431,
        sentence: 'The fields of this request are larger than this server takes.',
      }
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, sentence: 'The request did not arrive in time.' }
    case 'HPE_INVALID_METHOD':
      return { status: 501, sentence: 'This method is not known here.' }
    default:
      return { status: 400, sentence: 'This is not an HTTP request that can be understood.' }
  }
}
