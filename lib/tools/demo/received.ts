/**
 * Chooses what the sample application shows of a request: fields that name the user, and the others.
 */
import type { IncomingMessage } from 'node:http'

interface Field {
  readonly name: string
  readonly value: string
}

const LONGEST_SHOWN = 2000

/** Fields in which the gateway names the user, in the order of their arrival. */
export function identityOf(request: IncomingMessage): readonly Field[] {
  return fieldsOf(request).filter(isIdentity)
}

/** For templates/demo/application.mustache. */
export function pageView(request: IncomingMessage): Readonly<Record<string, unknown>> {
  const all = fieldsOf(request)
  const identity = all.filter(field => isIdentity(field) && !/-instance-id$/i.test(field.name))
  const user = identity.find(({ name }) => /^x-authproxy-user$/i.test(name))?.value
  const others = all.filter(field => !identity.includes(field))
  return {
    ...{ user: user ?? '', known: user !== undefined },
    ...{ identity: identity.map(shown), others: others.map(shown) },
    ...{ method: request.method ?? '', target: request.url ?? '' },
  }
}

function isIdentity({ name }: Field): boolean {
  return /^(x-authproxy-|authorization$)/i.test(name)
}

function fieldsOf({ rawHeaders }: IncomingMessage): readonly Field[] {
  return rawHeaders.flatMap((name, i) =>
    i % 2 === 0 ? [{ name, value: rawHeaders[i + 1] ?? '' }] : [],
  )
}

/** A field for the page; a long value is cut, and `note` says how long it was. */
function shown({ name, value }: Field): Field & { readonly note: string } {
  if (value.length <= LONGEST_SHOWN) return { name, value, note: '' }
  const note = `${value.length.toLocaleString('en-GB')} characters`
  return { name, value: `${value.slice(0, LONGEST_SHOWN)}…`, note }
}
