/**
 * The public host, and requests that name another. Pure.
 */
import type { Request } from '../../http/message/message.ts'
import { parseAuthority } from '../../http/message/target.ts'

/** Whether a Host field means the public host. */
export function isOwnHost(host: string | undefined, domain: string): boolean {
  const own = parseAuthority(domain, 443)
  const asked = parseAuthority(host ?? '', 443)
  if ('problem' in own || 'problem' in asked) return false
  return own.host === asked.host && own.port === asked.port
}

/**
 * The Host the backend is told: what came, when it is ours, else the public host. Applications make links of it, and mail them;
 * others choose by it whose data they show.
 */
export function hostFor({ fields }: Pick<Request, 'fields'>, domain: string): string {
  const host = fields.get('Host')
  return host !== undefined && isOwnHost(host, domain) ? host : domain
}
