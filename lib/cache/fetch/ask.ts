/**
 * One question about a file: to the origins of its archive in turn, redirects followed, nothing of the client in it.
 */
import type { OriginClient, OriginResponse } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Admission } from '../policy/policy.ts'
import type { Mirrors } from './mirrors.ts'
import { follow } from './redirects.ts'

export interface AskParts {
  readonly origin: OriginClient
  readonly mirrors: Mirrors
  readonly admit: (uri: TargetUri) => Admission
  readonly via: string
  readonly agent: string
}

/** `more` are the fields of this question: conditions and ranges. */
export type Ask = (
  method: 'GET' | 'HEAD',
  question: { readonly uri: TargetUri; readonly more: Fields; readonly signal: AbortSignal },
) => Promise<OriginResponse>

export function asking({ mirrors, via, agent, ...follows }: AskParts): Ask {
  const shared = Fields.of(['User-Agent', agent], ['Accept', '*/*'], ['Via', via])
  return (method, { uri, more, signal }) => {
    const fields = Fields.fromFlat([...shared.flat, ...more.flat])
    const conditional = more.flat.length > 0
    return mirrors.ask({ uri, conditional, signal }, (place, deadlines) =>
      follow({ method, uri: place, fields, signal, deadlines }, follows),
    )
  }
}
