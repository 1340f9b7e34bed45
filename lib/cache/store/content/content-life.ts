/**
 * The life of a content, by its digest: the states it can be in, what happens in each, and what a power cut makes of it. Pure;
 * `Blobs` keeps the states and has the files.
 *
 *     absent ──stored──> unused ──named──> named ──freed──> unused ──removal──> removed ──marked──> absent
 *
 * Beside this way lie two states of contents that clients get no more: `wrong`, when the bytes are not what the digest says, and
 * `staying`, when the disk does not let the file go. Content that arrives has no digest yet (download.ts).
 *
 * # A power cut
 * | State | Where it shows | After a power cut |
 * |---|---|---|
 * | arriving | a file below `tmp/`, or memory alone | a large download goes on from its last checkpoint (write-behind.ts), others are fetched again |
 * | unused | a file under its name | no entry names it: the sweep removes the file as a stray |
 * | named, not flushed | the entry stands behind the last mark of the log | its bytes are hashed before it is used; what is torn is absent |
 * | named, flushed | the entry stands before the mark | it is there |
 * | wrong, staying | no entry in the log | as unused |
 * | removed, not marked | entries from before the mark may name it again | the file is gone: its entries go when they are read |
 *
 * The last line is why a file that comes under a name which an entry may still have is flushed before it takes the name
 * (`mayBeNamedAfterCut`): otherwise a durable entry would name bytes that are not.
 */
import type { Milliseconds } from '../../../async/clock.ts'

/**
 * - absent: neither a file nor an entry is known
 * - unused: the file is there, and no entry names it, not yet or not any more
 * - named: entries name it
 * - wrong: its bytes are not what the digest says; its entries are gone, and its file goes
 * - staying: it was to be removed, and the disk did not let its file go
 * - removed: its file is gone, but no checkpoint has come since
 */
export type ContentState = 'absent' | 'unused' | 'named' | 'wrong' | 'staying' | 'removed'

/**
 * - stored: a verified file has taken the name
 * - named: an entry names it; freed: the last such entry is gone
 * - found-wrong: its bytes were hashed and are others
 * - emptied: the file that was found wrong is gone
 * - removal: its file is being removed; refused: the disk did not let that happen
 * - marked: a checkpoint came, from before which no entry can name it
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

/** What each event makes of a content in each state; where nothing stands, the state stays. */
const transitions: Readonly<
  Record<ContentState, Readonly<Partial<Record<ContentEvent, ContentState>>>>
> = {
  // A checkpoint may come while a file is being removed, and the disk refuse it afterwards.
  absent: {
    stored: 'unused',
    named: 'named',
    freed: 'unused',
    'found-wrong': 'wrong',
    refused: 'staying',
  },
  unused: { named: 'named', 'found-wrong': 'wrong', removal: 'removed', refused: 'staying' },
  // A removal that comes too late finds it named again.
  named: { freed: 'unused', 'found-wrong': 'wrong' },
  // No entry is put for these three (`isServed`): only another file makes them good.
  wrong: { stored: 'unused', removal: 'removed', refused: 'staying' },
  staying: { stored: 'unused', emptied: 'wrong', removal: 'removed' },
  removed: { stored: 'unused', 'found-wrong': 'wrong', refused: 'staying', marked: 'absent' },
}

/** The state after an event. */
export function afterEvent(state: ContentState, event: ContentEvent): ContentState {
  return transitions[state][event] ?? state
}

/** Whether clients get it, and entries may name it. */
export function isServed(state: ContentState): boolean {
  return state === 'named' || state === 'unused'
}

/** Whether its file lies there without an entry: the upkeep of the store removes it. */
export function isUnnamed(state: ContentState): state is 'unused' | 'wrong' | 'staying' {
  return state === 'unused' || state === 'wrong' || state === 'staying'
}

/** Whether an entry that survives a power cut may name it: a new file is then flushed before it takes the name. */
export function mayBeNamedAfterCut(state: ContentState): boolean {
  return state !== 'absent'
}

/** Why a file stays: what the disk says, and whose the directory of the file is when it says that this process may not. */
export interface WhyStays {
  readonly because: string
  readonly owner?: number
}

/** A content in a state that the table of entries does not show. When it is named and freed again there is a new one of these. */
export interface UnnamedContent {
  readonly digest: string
  /** Bytes of its file; 0 when that is gone. */
  readonly size: number
  /** When it came to be without an entry. */
  readonly since: Milliseconds
  readonly state: Exclude<ContentState, 'absent' | 'named'>
  /** Why its file stays; only in the state `staying`. */
  readonly why?: WhyStays
}
