/**
 * One question about a file: to the origins of its archive in turn, redirects followed, nothing of the client in it.
 */
import type { OriginClient } from '../../http/client/client.ts'
import { Fields } from '../../http/message/field.ts'
import type { TargetUri } from '../../http/message/target.ts'
import type { Admission } from '../policy/policy.ts'
import type { Answer, Mirrors, Question } from './mirrors.ts'
import { follow } from './redirects.ts'

export interface AskParts {
  readonly origin: OriginClient
  readonly mirrors: Mirrors
  readonly admit: (uri: TargetUri) => Admission
  readonly via: string
  readonly agent: string
}

/** `more` are the fields for one origin: conditions and ranges. `others` says whether the archive has further origins. */
export type Ask = (
  question: Question & {
    readonly method?: 'HEAD'
    readonly more?: (place: TargetUri, others: boolean) => Fields
  },
) => Promise<Answer>

export function asking({ mirrors, via, agent, ...follows }: AskParts): Ask {
  const shared = Fields.of(['User-Agent', agent], ['Accept', '*/*'], ['Via', via])
  return ({ method, more, ...question }) =>
    mirrors.ask(question, (uri, { others, ...how }) => {
      const fields = Fields.fromFlat([...shared.flat, ...(more?.(uri, others).flat ?? [])])
      return follow({ method: method ?? 'GET', uri, fields, ...how }, follows)
    })
}
