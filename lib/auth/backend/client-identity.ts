/**
 * The certificate by which the backend knows this service (mutual TLS): reads it with its key, and reads both again when they change. The old pair
 * stays in use when the new one does not fit together.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import type { Clock, Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { explainError, Failure, unreadableReason } from '../../errors.ts'
import { settledLook } from '../../files/settled-files.ts'
import type { KeyAndCertificate } from '../../http/server/options.ts'
import type { Logger } from '../../log/log.ts'
import type { Config } from '../config/config.ts'

interface WatchOptions {
  readonly log: Logger
  /** The rules in force. `show` answers false when the backend is shown this certificate already. */
  readonly rules: () => {
    readonly config: Config
    readonly backend: { readonly show: (identity: KeyAndCertificate) => boolean }
  }
}

const INTERVAL: Milliseconds = 1000
/** Bytes of either file. */
const LARGEST = 256 * 1024

/**
 * The certificate and the key in the configured files; undefined when none are configured. Throws a Failure when they cannot be
 * used.
 */
export function readClientIdentity({ targetClient: files }: Config): KeyAndCertificate | undefined {
  if (files === undefined) return undefined
  const cert = textOf('proxy.targetClientCertificate', files.certificate)
  const key = textOf('proxy.targetClientKey', files.key)
  const certificate = read(
    `proxy.targetClientCertificate ${files.certificate} holds no certificate`,
    () => new X509Certificate(cert),
  )
  const privateKey = read(
    `proxy.targetClientKey ${files.key} holds no private key without a passphrase`,
    () => createPrivateKey(key),
  )
  if (certificate.checkPrivateKey(privateKey)) return { cert, key }
  throw unfit(`proxy.targetClientKey ${files.key} is not the key of ${files.certificate}`)
}

/** When the certificate ends. */
export function endOf({ cert }: KeyAndCertificate): Milliseconds {
  return Date.parse(new X509Certificate(cert).validTo)
}

/** Checks the files of the certificate each second, and shows the backend a new one. Returns the function that ends this. */
export function watchClientIdentity(clock: Clock, options: WatchOptions): () => void {
  return repeat(clock, INTERVAL, clientIdentityLook(options))
}

/** A function that looks at the files once. It never throws. */
export function clientIdentityLook({ log, rules }: WatchOptions): () => Promise<void> {
  const files = () => {
    const { targetClient } = rules().config
    return targetClient && { of: targetClient, paths: Object.values(targetClient) }
  }
  return settledLook(files, () => {
    const { config, backend } = rules()
    try {
      const identity = readClientIdentity(config)
      if (identity === undefined || !backend.show(identity)) return
      const [file, ends] = [config.targetClient?.certificate, new Date(endOf(identity))]
      log.info('the certificate for the backend was read again', { file, ends })
    } catch (error) {
      const problem = explainError(error)
      log.warn('the certificate for the backend has changed and is of no use; the old one stays', {
        problem,
      })
    }
  })
}

function read<T>(otherwise: string, make: () => T): T {
  try {
    return make()
  } catch (cause) {
    throw unfit(`${otherwise} in PEM: ${explainError(cause)}`)
  }
}

function textOf(setting: string, file: string): string {
  try {
    // O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
    const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const stats = fstatSync(descriptor)
      if (!stats.isFile() || stats.size > LARGEST) throw new Error('it is not a small regular file')
      return readFileSync(descriptor, 'utf8')
    } finally {
      closeSync(descriptor)
    }
  } catch (error) {
    throw unfit(`cannot read ${setting} ${file}: ${unreadableReason(error)}`)
  }
}

/** Messages of OpenSSL name no content of a file. */
function unfit(problem: string): Failure {
  return new Failure(problem, { code: 'TARGET_CLIENT_CERTIFICATE' })
}
