/**
 * The command `cachesvc get` fetches a file through the proxy on this machine, as apt does.
 */
import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { Failure } from '../../errors.ts'
import { formatAuthority, parseUri } from '../../http/message/target.ts'
import { type ExitCode, exitCodes } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { printComplaint } from './base/terminal.ts'

/** The longest silence of the proxy in milliseconds. The proxy answers an error itself when an origin is silent for long. */
const silence = 60_000
/** The most characters of a sentence that are shown. */
const mostText = 4096

/** Writes the content to standard output, or to a file that appears only when it is complete. Returns the exit code. */
export async function printFile(
  url: string,
  { listen }: Pick<Config, 'listen'>,
  output: string | undefined,
): Promise<ExitCode> {
  const uri = parseUri(url.includes('://') ? url : `http://${url}`)
  if ('problem' in uri) {
    await printComplaint(`${url} is no http or https URL`)
    return exitCodes.usage
  }
  const host = formatAuthority(uri, uri.scheme)
  const rest = `${uri.path}${uri.query === undefined ? '' : `?${uri.query}`}`
  const path = uri.scheme === 'https' ? `http://HTTPS///${host}${rest}` : `http://${host}${rest}`
  const response = await answerTo(path, host, listen[0])
  const { statusCode: status = 0, headers } = response
  if (status !== 200) {
    const sentence = await beginning(response)
    await printComplaint(`${status}: ${sentence === '' ? response.statusMessage : sentence}`)
    return exitCodes.failure
  }
  await printComplaint(`${url}: ${headers['x-cache'] ?? 'no X-Cache'}`, 'info')
  if (output === undefined) for await (const piece of response) await written(piece)
  else if (await isNoFile(output)) await pipeline(response, createWriteStream(output))
  else await replaceFile(output, response)
  return exitCodes.success
}

function answerTo(
  path: string,
  host: string,
  at: Config['listen'][number] | undefined,
): Promise<IncomingMessage> {
  const { address = '127.0.0.1', port = 3142 } = at ?? {}
  const everywhere = address === '0.0.0.0' || address === '::'
  const own = { host: everywhere ? '127.0.0.1' : address, port }
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

async function beginning(response: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of response) {
    text += String(piece)
    if (text.length > mostText) break
  }
  return text.slice(0, mostText).trim()
}

/** Writes to standard output. Resolves when the bytes are written, so that the process can end. */
function written(piece: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(piece, error => (error ? reject(error) : resolve()))
  })
}

/** Whether the path is that of a device or a pipe: root would replace `/dev/null` by a file. */
async function isNoFile(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined)
  return found?.isFile() === false
}

/** Writes to a temporary file and renames it. A former file stays when the transfer breaks off. */
async function replaceFile(path: string, response: IncomingMessage): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.part`
  try {
    await pipeline(response, createWriteStream(temporary, { flags: 'wx' }))
    await rename(temporary, path)
  } finally {
    await rm(temporary, { force: true })
  }
}
