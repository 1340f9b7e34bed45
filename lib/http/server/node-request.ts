/**
 * Makes a Request of what Node's parser has read, and checks the rules that parser does not (request-rules.ts).
 */
import type { IncomingMessage } from 'node:http'
import { Fields } from '../message/field.ts'
import type { Response, SendInterim } from '../message/message.ts'
import { checkRequest } from '../wire/request-rules.ts'
import type { TargetReader } from '../wire/target-reader.ts'
import type { Connection } from './connections.ts'
import { malformed } from './exchanges.ts'
import { LiveRequest } from './live-request.ts'
import type { HttpServerOptions } from './options.ts'
import { RequestContent } from './request-content.ts'

interface NodeRequestParts {
  readonly options: HttpServerOptions
  readonly targets: TargetReader
  readonly content?: AsyncIterable<Buffer>
  readonly interim?: SendInterim
}

/** The request as a value, and the refusal when its head breaks a rule. */
export function nodeRequest(
  message: IncomingMessage,
  connection: Connection,
  { options, targets, content = new RequestContent(message), interim }: NodeRequestParts,
): { readonly request: LiveRequest; readonly refusal: Response | undefined } {
  const method = message.method ?? ''
  const rawTarget = message.url ?? ''
  const fields = Fields.fromFlat(message.rawHeaders)
  const target = targets.read(method, rawTarget)
  const request = new LiveRequest(
    {
      method,
      target: 'problem' in target ? { form: 'asterisk' } : target,
      version: message.httpVersionMinor === 0 ? '1.0' : '1.1',
      fields,
      content,
      trailers: content instanceof RequestContent ? () => content.trailers() : undefined,
      interim,
    },
    connection,
    options,
  )
  const head = { method, version: message.httpVersion, rawTarget, fields }
  const broken =
    checkRequest(head, options.limits.heads) ??
    ('problem' in target ? { status: 400 as const, sentence: target.problem } : undefined)
  return { request, refusal: broken && malformed(broken) }
}
