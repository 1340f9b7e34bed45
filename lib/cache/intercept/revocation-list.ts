/**
 * The certificate revocation list, which is kept in the cache directory. It is empty, because certificates are valid for a day only.
 * It is signed, numbered and renewed, as clients that ask for one expect.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, day, hour, type Milliseconds } from '../../async/clock.ts'
import { repeat } from '../../async/repeat.ts'
import { valueUnlessMissing } from '../../errors.ts'
import { writeFileAtomically } from '../../files/atomic-file.ts'
import type { Logger } from '../../log/log.ts'
import { type Issuer, listNumber } from '../../x509/x509.ts'

const interval: Milliseconds = hour / 2
/** The time for which a client may use a list. */
const validity: Milliseconds = 7 * day
/** The validity of a list begins this long before it is made, for clients whose clocks are late. */
const head: Milliseconds = hour

interface RevocationListOptions {
  readonly issuer: Pick<Issuer, 'issueList'>
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
}

export class RevocationList {
  readonly #options: RevocationListOptions
  readonly #file: string
  #stop = () => {}

  constructor(options: RevocationListOptions) {
    this.#options = options
    this.#file = join(options.directory, 'revocation.crl')
  }

  /** Makes the list now and every half hour. A failure is logged, and the last list stays. */
  async start(): Promise<void> {
    await this.#renew()
    this.#stop = repeat(this.#options.clock, interval, () => this.#renew())
  }

  stop(): void {
    this.#stop()
  }

  /** The list in DER; undefined while there is no file. */
  read(): Promise<Buffer | undefined> {
    return valueUnlessMissing(readFile(this.#file))
  }

  async #renew(): Promise<void> {
    const { issuer, clock, log } = this.#options
    try {
      const now = clock.now()
      const before = await this.read()
      const last = before === undefined ? undefined : listNumber(before)
      // Numbers only ever rise (RFC 5280 section 5.2.3), even when the clock is set back.
      const number = Math.max(Math.floor(now / 1000), (last ?? 0) + 1)
      const options = { number, thisUpdate: now - head, nextUpdate: now + validity }
      await writeFileAtomically(this.#file, await issuer.issueList(options))
    } catch (error) {
      log.error('the revocation list could not be made', { file: this.#file, error })
    }
  }
}
