/**
 * The life of a content: its states, what each event makes of them, and what a power cut makes of them. This file is pure; `Blobs` keeps
 * the state of each digest and has the files.
 *
 *     absent ──stored──> unused ──named──> named ──freed──> unused ──removal──> removed ──marked──> absent
 *
 * Clients do not get a content in two more states: `wrong`, when the bytes do not have the digest, and `staying`, when the disk refuses
 * to remove the file. A content that still arrives has no digest yet (download.ts).
 *
 * # A power cut
 * | State | Where it shows | After a power cut |
 * |---|---|---|
 * | arriving | a file below `tmp/`, or memory alone | a large download continues from its last checkpoint (write-behind.ts), others are fetched again |
 * | unused | a file under its name | no entry names it: the sweep removes the file as a stray |
 * | named, not flushed | the entry follows the last mark of the log | its bytes are hashed before it is used; a torn content is absent |
 * | named, flushed | the entry precedes the mark | it is there |
 * | wrong, staying | no entry in the log | as unused |
 * | removed, not marked | entries from before the mark may name it again | the file is gone: its entries are removed when they are read |
 */
import type { Milliseconds } from '../../../async/clock.ts'

/**
 * - absent: neither a file nor an entry is known
 * - unused: the file is there, and no entry names it, not yet or no longer
 * - named: entries name it
 * - wrong: its bytes do not have the digest; its entries are gone, and its file is being removed or is gone
 * - staying: it was to be removed, and the disk refused to remove its file
 * - removed: its file is gone, and no checkpoint has run since
 */
export type ContentState = 'absent' | 'unused' | 'named' | 'wrong' | 'staying' | 'removed'

/**
 * - stored: a verified file has taken the name
 * - named: an entry names it; freed: the last such entry is gone
 * - found-wrong: its bytes were hashed and do not have the digest, or they are not whole and the disk refused to remove their file at once
 * - emptied: the file that was found wrong is gone
 * - removal: its file is being removed; refused: the disk refused that
 * - marked: a checkpoint has run since the removal, so that no entry can name it after a power cut
 */
export type ContentEvent =
  | 'stored'
  | 'named'
  | 'freed'
  | 'found-wrong'
  | 'emptied'
  | 'removal'
  | 'refused'
  | 'marked'

/** The state after each event; an event that is not listed does not change the state. */
const transitions: Readonly<
  Record<ContentState, Readonly<Partial<Record<ContentEvent, ContentState>>>>
> = {
  // The disk may refuse a removal after a checkpoint has marked the content as absent.
  absent: {
    stored: 'unused',
    named: 'named',
    freed: 'unused',
    'found-wrong': 'wrong',
    refused: 'staying',
  },
  unused: { named: 'named', 'found-wrong': 'wrong', removal: 'removed', refused: 'staying' },
  // A late removal has no effect, because an entry names the content again.
  named: { freed: 'unused', 'found-wrong': 'wrong' },
  // No entry is put for a content in the next three states (`isServed`), so `named` cannot occur there.
  wrong: { stored: 'unused', removal: 'removed', refused: 'staying' },
  staying: { stored: 'unused', emptied: 'wrong', removal: 'removed' },
  removed: { stored: 'unused', 'found-wrong': 'wrong', refused: 'staying', marked: 'absent' },
}

/** The state after an event. */
export function afterEvent(state: ContentState, event: ContentEvent): ContentState {
  return transitions[state][event] ?? state
}

/** Whether clients get a content in this state, and entries may name it. */
export function isServed(state: ContentState): boolean {
  return state === 'named' || state === 'unused'
}

/** Whether a content in this state may have a file and has no entry: the upkeep of the store removes it. */
export function isUnnamed(state: ContentState): state is 'unused' | 'wrong' | 'staying' {
  return state === 'unused' || state === 'wrong' || state === 'staying'
}

/** Whether an entry that survives a power cut may name the content: a new file is flushed before it takes such a name. */
export function mayBeNamedAfterCut(state: ContentState): boolean {
  return state !== 'absent'
}

/** Why a file stays on the disk. `owner` is the user id of its directory, when this process lacks the permission. */
export interface WhyStays {
  readonly because: string
  readonly owner?: number
}

/** A content in a state that the table of entries does not show. A content that is named and freed again gets a new object. */
export interface UnnamedContent {
  readonly digest: string
  /** Bytes of its file; 0 when a file that was found wrong is gone. */
  readonly size: number
  /** The moment from which the grace for contents without an entry counts; infinite when the content waits for its first entry. */
  readonly since: Milliseconds
  readonly state: Exclude<ContentState, 'absent' | 'named'>
  /** Why its file stays; only in the state `staying`. */
  readonly why?: WhyStays
}
