/**
 * Remembers addresses that take connections and then miss a deadline: for the head of a response, for content, or for the TLS handshake.
 *
 * # Facts
 * - The first address to connect wins (RFC 8305), and an address whose server hangs, or that loses large packets, connects like any other.
 *   The resolver gives it again each time. So without a memory a name would be unusable while one of its addresses hangs.
 * - An address is only noted when its name has others: it comes last for a while, and is tried when the others fail.
 * - An answer from the address ends that.
 */
import type { Clock, Milliseconds } from '../../../async/clock.ts'
import { Rests } from '../../../async/rests.ts'
import { type Authority, formatAuthority } from '../../message/target.ts'

/** An address of a name, to which a connection was opened. */
export interface AddressOfName {
  readonly address: string
  readonly port: number
  /** The number of other addresses that the name had. */
  readonly others: number
}

/** An address that comes last now. */
export interface SilentAddress {
  /** Address and port. */
  readonly address: string
  /** The name that it was an address of. */
  readonly origin: string
}

/** The silence of a server whose client gives up, from which on its address counts as silent. */
export const longSilence: Milliseconds = 10_000

/** The time for which an address comes last after it was silent once. */
const firstRest: Milliseconds = 120_000

export class SilentAddresses {
  readonly #rests: Rests<string>
  readonly #onChange: (silent: SilentAddress) => void

  constructor(clock: Clock, onChange: (silent: SilentAddress) => void = () => {}) {
    this.#rests = new Rests(clock, { first: firstRest })
    this.#onChange = onChange
  }

  /** Notes that an address of this origin was silent. */
  note({ address, port, others }: AddressOfName, origin: string): void {
    if (others === 0) return
    const name = formatAuthority({ host: address, port })
    const news = this.#rests.left(name) === 0
    this.#rests.note(name, { because: origin })
    if (news) this.#onChange({ address: name, origin })
  }

  /** To be called when an address has answered. */
  heard({ address, port, others }: AddressOfName): void {
    if (others > 0) this.#rests.forget(formatAuthority({ host: address, port }))
  }

  /** The addresses to try, and those to try when all of them fail: the ones in `except`, and the ones that were silent. */
  inTurn(
    addresses: readonly string[],
    { port, except }: { readonly port: number; readonly except?: ReadonlySet<string> | undefined },
  ): { readonly first: readonly string[]; readonly later: readonly string[] } {
    if (addresses.length < 2) return { first: addresses, later: [] }
    const wanted = addresses.filter(address => except?.has(address) !== true)
    const { healthy, failing } = this.#rests.inTurn(wanted, host => formatAuthority({ host, port }))
    const later = [...failing, ...addresses.filter(address => except?.has(address) === true)]
    return healthy.length > 0 ? { first: healthy, later } : { first: later, later: [] }
  }

  states(): readonly SilentAddress[] {
    return this.#rests.names().map(address => ({
      address,
      origin: this.#rests.reason(address) ?? '',
    }))
  }
}

/** The families of addresses that may be used. */
export type AddressFamily = 'any' | 'ipv4' | 'ipv6'

/** The addresses of a family. */
export function ofFamily(addresses: readonly string[], family: AddressFamily): readonly string[] {
  if (family === 'any') return addresses
  return addresses.filter(address => address.includes(':') === (family === 'ipv6'))
}

/** Which family of addresses an authority is asked at. */
export type FamilyOf = (authority: Authority) => AddressFamily
