/**
 * Answers the commands that ask a running instance over its admin socket: status and reload.
 */
import type { RequestHandler } from '../admin-socket.ts'
import type { Milliseconds } from '../async/clock.ts'
import { type CommandAnswer, reloadAnswer, said } from '../command-answer.ts'
import type { Reload } from '../daemon.ts'
import { formatAuthority } from '../http/message/target.ts'
import type { ListenAddress } from '../http/server/listen.ts'
import { isRecord } from '../json.ts'
import { packageVersion } from '../package.ts'
import { exitCodes } from '../program.ts'
import type { Config } from './config/config.ts'
import type { SamlReadings } from './saml/service.ts'

interface ControlParts {
  readonly config: () => Config
  readonly started: Milliseconds
  readonly listening: () => { readonly main: ListenAddress; readonly admin?: ListenAddress }
  /** What keeps the instance from being ready. */
  readonly problems: () => readonly string[]
  /** Settings that wait for a restart. */
  readonly waiting: () => readonly string[]
  /** What else a person should know. */
  readonly remarks: () => readonly string[]
  readonly readings: () => SamlReadings
  readonly counts: () => { readonly clients: number; readonly websockets: number }
  readonly reload: Reload
}

/** Throws what the command that asked prints as its failure. */
export function control(parts: ControlParts): RequestHandler {
  return async (request): Promise<CommandAnswer> => {
    const { do: act } = isRecord(request) ? request : {}
    if (act === 'status') return status(parts)
    if (act === 'reload') return reloadAnswer(parts.reload, () => remarks(parts))
    throw new Error('this process does not know how to do that')
  }
}

function status(parts: ControlParts): CommandAnswer {
  const { config, problems, listening, readings, counts } = parts
  const { instance, baseUrl, target } = config()
  const { main, admin } = listening()
  const { clients, websockets } = counts()
  const { metadataFetched, metadataValidUntil, idpCertificateEnds } = readings()
  const found = problems()
  const line = (name: string, text: string) => `${name.padEnd(13)}${text}\n`
  const place = ({ address = '*', port }: ListenAddress) => formatAuthority({ host: address, port })
  const until = (name: string, at: Milliseconds | undefined) =>
    at === undefined ? '' : `, ${name} ${moment(at)}`
  const text = [
    `authproxy ${packageVersion()}, ${instance}: ${found.length === 0 ? 'ready' : 'not ready'}\n`,
    ...[...found, ...remarks(parts)].map(sentence => `  ${sentence}\n`),
    line('Running', `since ${moment(parts.started)}, process ${process.pid}`),
    line('Public', baseUrl),
    line('Listening', `${place(main)}${admin === undefined ? '' : `, admin ${place(admin)}`}`),
    line('Backend', `${target.scheme}://${formatAuthority(target, target.scheme)}`),
    line(
      'Metadata',
      `fetched ${metadataFetched === undefined ? 'never' : moment(metadataFetched)}${until('valid until', metadataValidUntil)}${until('certificates end', idpCertificateEnds)}`,
    ),
    line('Connections', `${clients} of clients, ${websockets} WebSockets`),
  ]
  return said(text.join(''), found.length === 0 ? exitCodes.success : exitCodes.failure)
}

function remarks({ waiting, remarks: others }: ControlParts): readonly string[] {
  const settings = waiting()
  return settings.length === 0
    ? others()
    : [`changed, and in force after a restart: ${settings.join(', ')}`, ...others()]
}

function moment(at: Milliseconds): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`
}
