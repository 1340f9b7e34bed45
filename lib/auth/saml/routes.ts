/**
 * The paths of SAML, each with its methods.
 */
import { createHash } from 'node:crypto'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { type Route, router } from '../../http/server/router.ts'
import { takeAssertion } from './acs.ts'
import { signsRequests } from './login.ts'
import { spMetadataXml } from './metadata/sp-metadata.ts'
import { returnPath, type Saml } from './parts.ts'
import { comeBack } from './redirect-endpoint.ts'
import { logout } from './slo.ts'

/** Answers every path of SAML; undefined for any other. */
export function samlRoutes(
  saml: Saml,
): (request: Request, path: string) => Promise<Response> | undefined {
  const metadata = async () => metadataResponse(saml)
  const routes: readonly Route[] = [
    { method: 'GET', path: '/saml/metadata.xml', handle: metadata },
    { method: 'GET', path: '/saml/metadata', handle: metadata },
    { method: 'GET', path: '/saml/certificate.crt', handle: async () => certificateResponse(saml) },
    { method: 'POST', path: '/saml/acs', handle: request => takeAssertion(saml, request) },
    { method: 'GET', path: '/saml/acs', handle: async request => notAPage(saml, request) },
    { method: 'GET', path: '/saml/slo', handle: request => logout(saml, request) },
    { method: 'POST', path: '/saml/slo', handle: request => logout(saml, request) },
    { method: 'GET', path: returnPath, handle: request => comeBack(saml, request) },
  ]
  const route = router(routes)
  return (request, path) => route(request, path, undefined)
}

function metadataResponse(saml: Saml): Response {
  const config = saml.config()
  const xml = spMetadataXml(config, saml.keys.saml(), {
    signs: signsRequests(config, saml.source.last),
    now: saml.clock.now(),
  })
  return documentResponse(Buffer.from(xml), 'application/samlmetadata+xml')
}

function certificateResponse(saml: Saml): Response {
  const [newest] = saml.keys.saml()
  const pem = Buffer.from(newest?.certificate ?? '')
  return documentResponse(pem, 'application/x-pem-file', 'attachment; filename="certificate.crt"')
}

function documentResponse(bytes: Buffer, type: string, disposition?: string): Response {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
  const fields = Fields.of(
    ['Content-Type', type],
    ['Content-Disposition', disposition],
    ['Cache-Control', 'no-cache'],
    ['ETag', etag],
    ['X-Content-Type-Options', 'nosniff'],
  )
  return { status: 200, fields, content: { kind: 'bytes', bytes } }
}

/** A person reloaded the page, or followed a bookmark. */
function notAPage({ failurePage }: Saml, request: Request): Response {
  return failurePage({ request, code: 'acs_get', fields: Fields.of(['Allow', 'POST']) })
}
