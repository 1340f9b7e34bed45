/**
 * The command `cachesvc get` fetches a file through the proxy on this machine, as apt does.
 */
import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { parseUri } from '../../http/message/target.ts'
import { type ExitCode, exitCodes } from '../../program.ts'
import type { Config } from '../config/config.ts'
import { askProxy } from './base/proxy.ts'
import { printComplaint } from './base/terminal.ts'

/** The most characters of a sentence that are shown. */
const mostText = 4096

/** Writes the content to standard output, or to a file that appears only when it is complete. Returns the exit code. */
export async function printFile(
  url: string,
  { listen }: Pick<Config, 'listen'>,
  output: string | undefined,
): Promise<ExitCode> {
  const full = url.includes('://') ? url : `http://${url}`
  if ('problem' in parseUri(full)) {
    await printComplaint(`${url} is not an http or https URL`)
    return exitCodes.usage
  }
  const response = await askProxy(full, listen[0])
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
