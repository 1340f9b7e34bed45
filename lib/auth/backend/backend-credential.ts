/**
 * The credential by which the application knows that a request came through this service: a fixed field, whose value stands in a file. Reads
 * the file, and reads it again when it changes. The value is never logged, and it is no part of the configuration.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { readFailure } from '../../config/reading.ts'
import { readSecretFile } from '../../config/secret-place.ts'
import { explainError, Failure, unreadableReason } from '../../errors.ts'
import { settledLook } from '../../files/settled-files.ts'
import { Fields } from '../../http/message/field.ts'
import type { Logger } from '../../log/log.ts'
import type { Config } from '../config/config.ts'
import { readToken } from '../config/setting-kinds.ts'

const INTERVAL: Milliseconds = 1000

interface WatchOptions {
  readonly log: Logger
  /** The rules in force. `present` answers false when the backend gets this credential already. */
  readonly rules: () => {
    readonly config: Pick<Config, 'backendCredential'>
    readonly backend: { readonly present: (credential: Fields) => boolean }
  }
}

/** The field with its value, and whether other users can read its file. Without a credential there is no field. */
interface BackendCredential {
  readonly fields: Fields
  readonly isReadableByOthers: boolean
}

/** The credential in the configured file. Throws a Failure, which quotes no value, when it cannot be used. */
export function readBackendCredential({
  backendCredential: named,
}: Pick<Config, 'backendCredential'>): BackendCredential {
  if (named === undefined) return { fields: Fields.empty, isReadableByOthers: false }
  const found = contentOf(named.file)
  if (!found.ok) {
    throw new Failure(`cannot use backendCredential.valueFile ${named.file}: ${found.problem}`, {
      code: 'BACKEND_CREDENTIAL',
    })
  }
  const { text, isReadableByOthers } = found.value
  return { fields: Fields.of([named.field, text]), isReadableByOthers }
}

/** The text of a file that can be the value, or what is wrong with it. */
function contentOf(file: string): ReturnType<typeof readSecretFile> {
  try {
    const content = readSecretFile(file)
    const value = content.ok ? readToken(content.value.text) : content
    return value.ok ? content : value
  } catch (error) {
    return readFailure(unreadableReason(error))
  }
}

/** Checks the file of the credential each second, and sends the backend a new value. Returns the function that ends this. */
export function watchBackendCredential(clock: Clock, { log, rules }: WatchOptions): () => void {
  const files = () => {
    const { backendCredential: named } = rules().config
    return named && { of: named, paths: [named.file] }
  }
  const look = settledLook(files, () => {
    const { config, backend } = rules()
    try {
      if (!backend.present(readBackendCredential(config).fields)) return
      const { file } = config.backendCredential ?? {}
      log.info('the credential for the backend was read again', { file })
    } catch (error) {
      const problem = explainError(error)
      log.warn('the credential for the backend has changed and is of no use; the old one stays', {
        problem,
      })
    }
  })
  return repeat(clock, INTERVAL, look)
}
