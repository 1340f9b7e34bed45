/**
 * Waits on for the head of an answer that no other origin can give. A head is late when it has not come within `timeouts.fields`.
 * Clients do not wait for it any longer, but a later one finds what it brings.
 *
 * # Facts
 * - Archives that make their indexes on demand need up to a minute for a head. Work for a request that is given up is lost, so an
 *   archive that is asked again and again never answers.
 * - A kept connection can be dead without a sign of it, and so can one server of several. Silence does not show which. So a late question
 *   is asked once more over one new connection, and the first answer counts. When both are late, the one on the newer connection stays.
 * - A connection with a late head is of no use to other requests. Late questions hold at most half of an origin's connections, and beyond
 *   that a late question fails. Where an origin may have one connection, a late question holds it while no other request waits for it, and
 *   at least as long as apt would wait. A new connection then takes the place of a kept one, which may be dead.
 */
import type { Clock, Milliseconds } from '../../async/clock.ts'
import type { LateRequest, OriginRequest } from '../../http/client/client.ts'
import { formatAuthority, type TargetUri } from '../../http/message/target.ts'

/** The longest time for a head, unless `timeouts.fields` is longer. */
const longestHead: Milliseconds = 5 * 60_000

/** The time for which a question may hold the only connection to an origin while others wait for it: that of apt. */
const longestAlone: Milliseconds = 30_000
/** The time between two looks at whether others wait. */
const lookEvery: Milliseconds = 5000

/** The most late questions to all origins together. */
const mostLate = 64

/** The longest time for the head of an answer that no other origin can give, and for that of a request that is passed through. */
export function longestWait({ fields }: { readonly fields: Milliseconds }): Milliseconds {
  return Math.max(longestHead, fields)
}

interface LateHeadsParts {
  readonly clock: Clock
  readonly timeouts: () => { readonly fields: Milliseconds }
  /** The most connections to an origin by the settings. */
  readonly connectionsTo: (place: TargetUri) => number
}

/** The fields of a request by which `LateHeads` asks. */
type Attempt = Pick<OriginRequest, 'onLate' | 'fresh' | 'nextAddressAfter'>

interface Question<Answer> {
  readonly place: TargetUri
  /** Sends a request for the same file. */
  readonly send: (attempt: Attempt) => Promise<Answer>
  /**
   * Whether an answer ends the question while the other request could still bring one. `maybeDead` says that the other one is on a kept
   * connection.
   */
  readonly counts: (answer: Answer, maybeDead: boolean) => boolean
  /** Drops an answer that is not used. */
  readonly drop: (answer: Answer) => void
}

export class LateHeads {
  readonly #parts: LateHeadsParts
  /** The number of late questions to each origin. */
  readonly #late = new Map<string, number>()
  #all = 0

  constructor(parts: LateHeadsParts) {
    this.#parts = parts
  }

  /** Asks an origin. Rejects with the last failure when no request brings an answer. */
  ask<Answer>({ place, send, counts, drop }: Question<Answer>): Promise<Answer> {
    const { clock, timeouts } = this.#parts
    const begun = clock.elapsed()
    const end = begun + longestWait(timeouts())
    const lates = new Set<LateRequest>()
    let [underWay, entered, settled] = [0, false, false]
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        settled = true
        if (entered) this.#leave(place)
        for (const late of lates) late.cancel()
      }
      const isLate = (late: LateRequest, isFirst: boolean): Milliseconds => {
        const left = end - clock.elapsed()
        if (settled || left <= 0) return 0
        if (late.alone && late.awaited && clock.elapsed() - begun >= longestAlone) return 0
        const patience = late.alone ? Math.min(left, lookEvery) : left
        if (!entered) {
          entered = this.#enter(place)
          if (!entered) return 0
          if (late.alone && late.reused) {
            begin(false)
            return 0
          }
          lates.add(late)
          if (!late.alone) begin(false)
          return patience
        }
        const [other] = lates
        if (!isFirst && other !== undefined && other !== late) {
          if (!other.reused) return 0
          lates.delete(other)
          other.cancel()
        }
        lates.add(late)
        return patience
      }
      const begin = (isFirst: boolean): void => {
        underWay += 1
        // Each address that is asked, and each redirect, can be late on its own.
        const own: LateRequest[] = []
        const onLate = (late: LateRequest): Milliseconds => {
          own.push(late)
          return isLate(late, isFirst)
        }
        const ended = (): void => {
          underWay -= 1
          for (const late of own) lates.delete(late)
        }
        send(isFirst ? { onLate } : { onLate, fresh: true, nextAddressAfter: undefined }).then(
          answer => {
            ended()
            const maybeDead = [...lates].every(({ reused }) => reused)
            if (settled || (underWay > 0 && !counts(answer, maybeDead))) return drop(answer)
            settle()
            resolve(answer)
          },
          (error: unknown) => {
            ended()
            if (settled || underWay > 0) return
            settle()
            reject(error)
          },
        )
      }
      begin(true)
    })
  }

  /** Takes a place among the late questions to an origin. Answers false when all are taken. */
  #enter(place: TargetUri): boolean {
    const origin = formatAuthority(place)
    const late = this.#late.get(origin) ?? 0
    const most = Math.max(1, Math.floor(this.#parts.connectionsTo(place) / 2))
    if (late >= most || this.#all >= mostLate) return false
    this.#late.set(origin, late + 1)
    this.#all += 1
    return true
  }

  #leave(place: TargetUri): void {
    const origin = formatAuthority(place)
    const late = (this.#late.get(origin) ?? 1) - 1
    if (late > 0) this.#late.set(origin, late)
    else this.#late.delete(origin)
    this.#all -= 1
  }
}
