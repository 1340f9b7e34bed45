/**
 * What the sample application received, put for people: who is there according to the gateway's fields, and the rest.
 */
import type { IncomingMessage } from 'node:http'

/** Names and values, in the order of their arrival. */
export type Pairs = ReadonlyArray<{ readonly name: string; readonly value: string }>

const LONGEST_SHOWN = 2000

/** Fields by which the gateway says who is there. */
export function identityOf(request: IncomingMessage): Pairs {
  return pairs(request).filter(({ name }) => /^(x-authproxy-|authorization$)/i.test(name))
}

/** For templates/demo/application.mustache. */
export function pageView(request: IncomingMessage): Readonly<Record<string, unknown>> {
  const identity = identityOf(request).filter(({ name }) => !/-instance-id$/i.test(name))
  const user = identity.find(({ name }) => name.toLowerCase() === 'x-authproxy-user')?.value
  const others = pairs(request).filter(field => !identity.some(({ name }) => name === field.name))
  return {
    user: user ?? '',
    known: user !== undefined,
    identity: identity.map(shown),
    others: others.map(shown),
    method: request.method ?? '',
    target: request.url ?? '',
  }
}

function pairs({ rawHeaders }: IncomingMessage): Pairs {
  const found: Array<Pairs[number]> = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    found.push({ name: rawHeaders[i] ?? '', value: rawHeaders[i + 1] ?? '' })
  }
  return found
}

/** Long values are cut, and it is said how long they were. */
function shown({ name, value }: Pairs[number]): Pairs[number] & { readonly note: string } {
  const text = value.length > LONGEST_SHOWN ? `${value.slice(0, LONGEST_SHOWN)}…` : value
  const note =
    value.length > LONGEST_SHOWN ? `${value.length.toLocaleString('en-GB')} characters` : ''
  return { name, value: text, note }
}
