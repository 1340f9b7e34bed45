/**
 * Recognises requests that have come through this instance before, by its random name in a field. Pure.
 *
 * Names of other instances a request passed stay beside it, so a circle through several of them is seen as well.
 */
import { timingSafeEqual } from 'node:crypto'
import { type Fields, listMembers } from '../../http/message/field.ts'
import { ownField } from './own-fields.ts'

/** The field the names stand in. */
export const instanceField = ownField('Instance-ID')

/** Most instances one behind the other. */
const MOST = 8
const FORM = /^[0-9a-f]{32}$/

/** A name of 128 random bits. */
export function newInstanceId(random: (size: number) => Buffer): string {
  return random(16).toString('hex')
}

/** Whether a request has come through this instance before. */
export function hasLooped(fields: Fields, own: string): boolean {
  return namesIn(fields).some(name => timingSafeEqual(Buffer.from(name), Buffer.from(own)))
}

/** The field value for the next hop: the names that came, as far as they are names, and ours. */
export function instanceTrail(fields: Fields, own: string): string {
  return [...namesIn(fields).slice(-(MOST - 1)), own].join(', ')
}

function namesIn(fields: Fields): readonly string[] {
  const value = fields.get(instanceField)?.slice(0, 4096)
  return value === undefined ? [] : listMembers(value).filter(name => FORM.test(name))
}
