/**
 * Asks the proxy that runs on this machine for files, as a client does.
 */
import { createHash } from 'node:crypto'
import { type IncomingMessage, request } from 'node:http'
import { explainError, Failure } from '../../../errors.ts'
import { formatAuthority, parseUri } from '../../../http/message/target.ts'
import type { Config } from '../../config/config.ts'

/** The longest silence of the proxy in milliseconds. The proxy answers an error itself when an origin is silent for long. */
const silence = 60_000

/** The place of a proxy on this machine that listens at `at`. */
export function ownAddress(at: Config['listen'][number] | undefined) {
  const { address = '127.0.0.1', port = 3142 } = at ?? {}
  const everywhere = address === '0.0.0.0' || address === '::'
  return { host: everywhere ? '127.0.0.1' : address, port }
}

/** Asks the proxy on this machine for a URL. Throws a Failure when it does not answer, or when the URL is invalid. */
export function askProxy(
  url: string,
  at: Config['listen'][number] | undefined,
): Promise<IncomingMessage> {
  const uri = parseUri(url)
  if ('problem' in uri) throw new Failure(`${url} is not an http or https URL`, { code: 'get' })
  const host = formatAuthority(uri, uri.scheme)
  const rest = `${uri.path}${uri.query === undefined ? '' : `?${uri.query}`}`
  const path = uri.scheme === 'https' ? `http://HTTPS///${host}${rest}` : `http://${host}${rest}`
  const own = ownAddress(at)
  return new Promise((resolve, reject) => {
    const asking = request({ ...own, path, headers: { Host: host }, agent: false }, resolve)
    const fail = (cause: Error): void => {
      const where = formatAuthority(own)
      const text = `the proxy at ${where} does not answer: ${cause.message}`
      reject(new Failure(text, { code: 'get', cause }))
    }
    asking.setTimeout(silence, () => asking.destroy(new Error(`silence for ${silence / 1000} s`)))
    asking.on('error', fail)
    asking.end()
  })
}

/** What a client was given for a URL, or the reason why it was given no file. */
export type ProxyContent =
  | { readonly digest: string; readonly bytes: number; readonly wasStored: boolean }
  | { readonly because: string }

/** Asks the proxy on this machine for a URL, and reads the content to its end. Never rejects. */
export async function fetchThrough(
  url: string,
  at: Config['listen'][number] | undefined,
  onRead: (bytes: number) => void = () => undefined,
): Promise<ProxyContent> {
  try {
    const response = await askProxy(url, at)
    const { statusCode: status, statusMessage: reason, headers } = response
    if (status !== 200) {
      response.destroy()
      return { because: `${status} ${reason}` }
    }
    const hash = createHash('sha256')
    let bytes = 0
    for await (const piece of response) {
      hash.update(piece)
      bytes += piece.length
      onRead(piece.length)
    }
    const wasStored = String(headers['x-cache']).startsWith('HIT')
    return { digest: hash.digest('hex'), bytes, wasStored }
  } catch (error) {
    return { because: explainError(error) }
  }
}

/** The number of files that a command asks for at a time. */
const together = 4

/** Runs `act` for all members, some at a time. */
export async function eachOf<T>(
  members: readonly T[],
  act: (member: T) => Promise<void>,
): Promise<void> {
  const waiting = [...members]
  const worker = async (): Promise<void> => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) await act(one)
  }
  await Promise.all(Array.from({ length: together }, worker))
}
