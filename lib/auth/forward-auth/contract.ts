/**
 * The contract of each edge, as a table: the fields it sends with a check, and the answers it understands.
 *
 * # Facts
 * - nginx sends what the configuration sets (ngx_http_auth_request_module) and takes 2xx, 401 and 403; any other status is an error.
 * - Traefik (ForwardAuth) and Caddy (forward_auth) set X-Forwarded-Method, -Uri and -Host themselves, and send the browser the answer.
 * - Envoy (ext_authz over HTTP) sends the line of the request itself behind a prefix, and passes on 200 alone. It adds its own address to
 *   X-Forwarded-For.
 * - HAProxy has no such check: the Lua file of packaging/edges sends it, and it answers as for nginx.
 */
import { sameName } from '../../http/message/field.ts'
import { ownField } from '../access/own-fields.ts'
import type { Edge } from '../config/setting-forward-auth.ts'

export const checkPath = '/check'

/** The field with the secret of the edge, where `forwardAuth.secretFile` is set. */
export const edgeSecretField = ownField('Edge-Secret')

/** The field with the client's address, at every edge. */
const addressField = 'X-Forwarded-For'

/** The field, beside status 401, with the address a person who opens a page is to be redirected to. */
export const redirectField = ownField('Redirect')

/** A field of a check, and where the configuration of the edge sets it. */
export interface Source {
  readonly field: string
  readonly setBy: string
}

export interface Contract {
  /**
   * The sources of method, target and host of the request. Undefined means the request line of the check itself, where the
   * target follows `/check`.
   */
  readonly method: Source | undefined
  readonly target: Source | undefined
  readonly host: Source
  readonly address: Source
  readonly secret: Source
  /**
   * The way a browser is redirected: by 401 with a field that the edge makes into a redirect, or by a redirect that the edge
   * hands on.
   */
  readonly redirects: 'field' | 'answer'
}

/** The fields of nginx and of HAProxy's Lua file. */
const ORIGINAL = {
  method: 'X-Original-Method',
  target: 'X-Original-URI',
  host: 'X-Original-Host',
} as const

/** The fields of Traefik and Caddy. */
const FORWARDED = {
  method: 'X-Forwarded-Method',
  target: 'X-Forwarded-Uri',
  host: 'X-Forwarded-Host',
} as const

const nginx = (field: string, value: string): Source => ({
  field,
  setBy: `proxy_set_header ${field} ${value};`,
})

/** The sources of an edge that sets these fields, all in one way. */
function sourcesOf(
  { method, target, host }: typeof ORIGINAL | typeof FORWARDED,
  setBy: (field: string) => string,
) {
  const source = (field: string): Source => ({ field, setBy: setBy(field) })
  return {
    method: source(method),
    target: source(target),
    host: source(host),
    address: source(addressField),
    secret: source(edgeSecretField),
  }
}

export const contracts: Readonly<Record<Edge, Contract>> = {
  nginx: {
    method: nginx(ORIGINAL.method, '$request_method'),
    target: nginx(ORIGINAL.target, '$request_uri'),
    host: nginx(ORIGINAL.host, '$http_host'),
    address: nginx(addressField, '$remote_addr'),
    secret: nginx(edgeSecretField, '"SECRET"'),
    redirects: 'field',
  },
  haproxy: {
    ...sourcesOf(ORIGINAL, field => {
      return `http-request lua.authproxy_check of packaging/edges sends ${field}`
    }),
    redirects: 'field',
  },
  traefik: {
    ...sourcesOf(FORWARDED, field => {
      return `the middleware forwardAuth sends ${field} by itself; do not name it in authRequestHeaders`
    }),
    secret: {
      field: edgeSecretField,
      setBy: `a middleware headers before forwardAuth, with customRequestHeaders: { ${edgeSecretField}: SECRET }`,
    },
    redirects: 'answer',
  },
  caddy: {
    ...sourcesOf(FORWARDED, field => {
      return `forward_auth sends ${field} by itself; remove any header_up ${field}`
    }),
    secret: { field: edgeSecretField, setBy: `header_up ${edgeSecretField} SECRET` },
    redirects: 'answer',
  },
  envoy: {
    method: undefined,
    target: undefined,
    host: { field: 'Host', setBy: 'ext_authz sends Host by itself' },
    address: { field: addressField, setBy: 'ext_authz sends X-Forwarded-For by itself' },
    secret: {
      field: edgeSecretField,
      setBy: `authorization_request.headers_to_add: { key: ${edgeSecretField}, value: SECRET }`,
    },
    redirects: 'answer',
  },
}

/** Whether a check of this edge has a field of this name as a source, so that the edge itself has written it. */
export function isSource(edge: Edge, name: string): boolean {
  const { method, target, host, address, secret } = contracts[edge]
  const is = (source: Source | undefined) => source !== undefined && sameName(source.field, name)
  return is(method) || is(target) || is(host) || is(address) || is(secret)
}
