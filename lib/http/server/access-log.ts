/**
 * Makes the log record of an exchange: request, response and reason. It has no cookie, credential or secret of a query: only
 * the fields named here are read, and the logger redacts.
 */
import type { LogFacts } from '../../log/log.ts'
import type { Exchange, Request } from '../message/message.ts'
import { formatAuthority, formatUri, pathAndQuery } from '../message/target.ts'

/** What a reader of the log gets of an exchange. `duration` is milliseconds, `sent` bytes of content. */
export function accessFacts(exchange: Exchange): LogFacts {
  const { request, response } = exchange
  return {
    id: request.id,
    client: request.client.address,
    method: request.method,
    target: targetText(request),
    status: response.status,
    sent: exchange.sent,
    duration: Math.round(exchange.duration),
    ...(exchange.complete ? {} : { complete: false }),
    ...response.facts,
    agent: request.fields.get('User-Agent'),
  }
}

function targetText({ target, fields }: Request): string {
  switch (target.form) {
    case 'absolute':
      return formatUri(target.uri)
    case 'authority':
      return formatAuthority(target.authority)
    case 'asterisk':
      return '*'
    case 'origin':
      return `${fields.get('Host') ?? ''}${pathAndQuery(target)}`
  }
}
