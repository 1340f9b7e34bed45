/**
 * Finds content that is plainly not the file, by its first bytes.
 */
import type { Piece } from '../../bytes/piece.ts'
import { bytesSource, prefixedSource, type Source } from '../../bytes/source.ts'
import { type Impostor, impostor, isPage, promisesNothing, tellingBytes } from '../archive/path.ts'
import type { Answer } from './mirrors.ts'
import { expectedContent, type WantedFile } from './wanted-file.ts'

/**
 * Examines the first bytes of a 200. The result has the unchanged content, and the reason if it is not the file. It does not wait for the
 * bytes of a file whose name promises no format, nor of one with a digest, unless another origin may have the file.
 */
export async function examinedContent(
  { response, others }: Pick<Answer, 'response' | 'others'>,
  wanted: WantedFile,
): Promise<{ readonly content: Source; readonly found?: Impostor | undefined }> {
  const { fields, content } = response
  const { archive, uri } = wanted
  const promised = expectedContent(wanted) !== undefined
  if (promisesNothing(archive) || (promised && !others)) return { content }
  const name = uri.path.slice(uri.path.lastIndexOf('/') + 1)
  const judged = (first: Buffer): Impostor | undefined => {
    if (!promised) return impostor(archive, name, fields, first)
    return isPage(first) ? 'page' : undefined
  }
  const bytes = content.whole?.()
  if (bytes !== undefined) return { content: bytesSource(bytes), found: judged(bytes) }
  const { first, broken, whole } = await opening(content, tellingBytes)
  return { content: whole, found: broken ? undefined : judged(first) }
}

/**
 * Reads the first `count` bytes of a content, or fewer when it ends or breaks off before. `whole` is the content from its beginning,
 * including an error that broke it off.
 */
function opening(
  content: Source,
  count: number,
): Promise<{ readonly first: Buffer; readonly broken: boolean; readonly whole: Source }> {
  return new Promise(resolve => {
    const pieces: Piece[] = []
    let size = 0
    const step = (error: Error | undefined, piece: Piece | undefined): void => {
      if (piece !== undefined) {
        pieces.push(piece)
        size += piece.bytes.length
        if (size < count) return content.next(step)
      }
      const first = Buffer.concat(pieces.map(({ bytes }) => bytes.subarray(0, count)))
      const ended: Source = { next: take => take(error, undefined), close: () => content.close() }
      const whole = prefixedSource(pieces, piece === undefined ? ended : content)
      resolve({ first: first.subarray(0, count), broken: error !== undefined, whole })
    }
    content.next(step)
  })
}
