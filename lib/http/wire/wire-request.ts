/**
 * A request as it goes to an origin, every field of it decided.
 */
import type { Socket } from 'node:net'
import type { Milliseconds } from '../../async/clock.ts'
import type { Fields } from '../message/field.ts'
import type { Content, SendInterim } from '../message/message.ts'

/** A request as it goes on the wire. */
export interface WireRequest {
  readonly method: string
  /** The request target in the form the next hop wants. */
  readonly target: string
  /** All fields, Host and framing included, in order. */
  readonly fields: Fields
  readonly content: Content
  /** The longest wait for 100 (Continue) before the content is sent all the same; undefined: it is sent at once. */
  readonly awaitContinue?: Milliseconds | undefined
  readonly onInterim?: SendInterim | undefined
  /** Told in place of a response when the origin changes protocols (101); without it that is an error. */
  readonly onSwitch?: (switched: Switched) => void
}

/** A connection that speaks another protocol from here on. */
export interface Switched {
  /** Fields of the 101 response. */
  readonly fields: Fields
  readonly socket: Socket
  /** Bytes that came behind the response. */
  readonly head: Buffer
}
