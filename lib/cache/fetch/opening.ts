/**
 * Reads the first bytes of a response, and says when it is plainly not the file that was asked for.
 */
import type { Piece } from '../../bytes/piece.ts'
import { prefixed, type Source } from '../../bytes/source.ts'
import type { OriginResponse } from '../../http/client/client.ts'
import type { TargetUri } from '../../http/message/target.ts'
import { type Impostor, impostor, promisesNothing, telling } from '../archive/impostor.ts'
import type { ArchivePath } from '../archive/path.ts'

interface Opening {
  /** As many bytes as were asked for, or all there are; or, when the content broke off, as many as came. */
  readonly first: Buffer
  /** Whether it broke off so early that `first` says nothing. */
  readonly broken: boolean
  /** The whole content, those bytes included. */
  readonly content: Source
}

/** The content of a 200, whole, and why it is not the file; a name that promises nothing is not waited for. */
export async function examined(
  { fields, content }: Pick<OriginResponse, 'fields' | 'content'>,
  { archive, uri }: { readonly archive: ArchivePath; readonly uri: TargetUri },
): Promise<{ readonly content: Source; readonly found?: Impostor | undefined }> {
  if (promisesNothing(archive)) return { content }
  const opened = await opening(content, telling)
  const name = uri.path.slice(uri.path.lastIndexOf('/') + 1)
  const found = opened.broken ? undefined : impostor({ ...archive, name }, fields, opened.first)
  return { content: opened.content, found }
}

/** Reads the first `count` bytes. A content that breaks off so early breaks off again. */
function opening(content: Source, count: number): Promise<Opening> {
  return new Promise(resolve => {
    const pieces: Piece[] = []
    let size = 0
    const step = (error: Error | undefined, piece: Piece | undefined): void => {
      if (piece !== undefined) {
        pieces.push(piece)
        size += piece.bytes.length
        if (size < count) return content.next(step)
      }
      const parts = pieces.map(({ bytes }) => bytes.subarray(0, count))
      const first = Buffer.concat(parts).subarray(0, count)
      const rest = piece === undefined ? ended(error, content) : content
      resolve({ first, broken: error !== undefined, content: prefixed(pieces, rest) })
    }
    content.next(step)
  })
}

function ended(error: Error | undefined, content: Source): Source {
  return { next: take => take(error, undefined), close: () => content.close() }
}
