/**
 * Answers the commands that ask a running instance over its admin socket: status, reload, the end of the sessions of a user, and
 * why a request failed.
 */
import {
  type CommandAnswer,
  complaintAnswer,
  outputAnswer,
  type RequestHandler,
  reloadAnswer,
} from '../admin-socket.ts'
import type { Milliseconds } from '../async/clock.ts'
import { waitingSentences } from '../config/restart.ts'
import type { Reload } from '../daemon.ts'
import { formatAuthority } from '../http/message/target.ts'
import type { ListenAddress } from '../http/server/listen.ts'
import { isRecord } from '../json.ts'
import type { Logger } from '../log/log.ts'
import { packageVersion } from '../package.ts'
import { exitCodes } from '../program.ts'
import type { Config } from './config/config.ts'
import type { CheckAddress } from './config/setting-forward-auth.ts'
import type { SamlReadings } from './login/service.ts'
import type { FailureRecord } from './pages/failure-records.ts'
import type { EndedUser } from './session/sessions.ts'

interface ControlParts {
  readonly config: () => Config
  readonly started: Milliseconds
  readonly listening: {
    readonly main: ListenAddress
    readonly admin?: ListenAddress | undefined
    readonly checks?: CheckAddress | undefined
  }
  /** The problems that keep the instance from being ready. */
  readonly problems: () => readonly string[]
  /** Settings that wait for a restart. */
  readonly waiting: () => readonly string[]
  /** Further facts for the administrator. */
  readonly remarks: () => readonly string[]
  readonly readings: () => SamlReadings
  readonly counts: () => { readonly clients: number; readonly websockets: number }
  readonly reload: Reload
  /** Ends all sessions of a user; undefined while the list of ended sessions is off. */
  readonly endUser: (user: string) => Promise<EndedUser | undefined>
  /** The last failures, the oldest first. */
  readonly failures: () => readonly FailureRecord[]
  /** The last failures of all instances that share a store. */
  readonly sharedFailures: () => Promise<readonly FailureRecord[]>
  readonly log: Logger
}

/** The most characters of a user whose sessions are to end, and of a reference: none is longer. */
export const longestUser = 1000

/** The handler of the admin socket. It throws the error that the asking command prints. */
export function control(parts: ControlParts): RequestHandler {
  return async (request): Promise<CommandAnswer> => {
    const { do: act, user, by, reference } = isRecord(request) ? request : {}
    if (act === 'status') return status(parts)
    if (act === 'reload') return reloadAnswer(parts.reload, () => remarks(parts))
    if (act === 'end-sessions' && typeof user === 'string' && user.length <= longestUser) {
      return endSessions(parts, user, typeof by === 'string' ? by.slice(0, 200) : 'unknown')
    }
    if (act === 'explain' && typeof reference === 'string' && reference.length <= longestUser) {
      const { explain } = await import('./explain.ts')
      const own = explain(reference, parts.failures())
      const shared = own.found ? undefined : explain(reference, await parts.sharedFailures())
      const { found, lines } = shared?.found === true ? shared : own
      return found
        ? outputAnswer(`${lines.join('\n')}\n`)
        : complaintAnswer(exitCodes.failure, ...lines)
    }
    throw new Error('this process does not know how to do that')
  }
}

function status(parts: ControlParts): CommandAnswer {
  const { config, problems, listening, readings, counts } = parts
  const { instance, baseUrl, target } = config()
  const { main, admin, checks } = listening
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
    line(
      'Listening',
      `${place(main)}${admin === undefined ? '' : `, admin ${place(admin)}`}${checks === undefined ? '' : `, checks ${'path' in checks ? `unix:${checks.path}` : place(checks)}`}`,
    ),
    line('Backend', `${target.scheme}://${formatAuthority(target, target.scheme)}`),
    line(
      'Metadata',
      `fetched ${metadataFetched === undefined ? 'never' : moment(metadataFetched)}${until('valid until', metadataValidUntil)}${until('certificates end', idpCertificateEnds)}`,
    ),
    line('Connections', `${clients} of clients, ${websockets} WebSockets`),
  ]
  return outputAnswer(text.join(''), found.length === 0 ? exitCodes.success : exitCodes.failure)
}

/** `by` is what the command says of its caller, who is the user of the service or root. */
async function endSessions(
  { endUser, log }: ControlParts,
  user: string,
  by: string,
): Promise<CommandAnswer> {
  const ended = await endUser(user)
  if (ended === undefined) {
    return complaintAnswer(
      exitCodes.failure,
      'no session has ended: session.revocation is off, so this instance keeps no list of ended sessions; delete the dynamic configuration and restart to end all sessions of all users',
    )
  }
  const { seenSessions, isWritten } = ended
  log.info('sessions of a user ended', { user, by, seen: seenSessions })
  const text = [
    `All sessions of ${user} that were made until now have ended.\n`,
    seenSessions === 0
      ? 'None of them was active recently: see that the name is that of `user` in the log.\n'
      : `${seenSessions} of them ${seenSessions === 1 ? 'was' : 'were'} active recently; WebSockets and event streams end within a second.\n`,
    'The identity provider may sign the user in again: to keep the user out, lock the account there first.\n',
  ]
  const notWritten =
    'their end could not be written down, as the log says: it holds until the next restart'
  return isWritten
    ? outputAnswer(text.join(''))
    : { out: text.join(''), complaints: [notWritten], code: exitCodes.failure }
}

function remarks({ waiting, remarks: others }: ControlParts): readonly string[] {
  return [...waitingSentences(waiting()), ...others()]
}

function moment(at: Milliseconds): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`
}
