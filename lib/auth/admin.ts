/**
 * Answers liveness, readiness, metrics and the keys of the signed identity on the admin listener.
 * That is a listener of its own, because every other path of the public one belongs to the backend.
 */
import { Fields } from '../http/message/field.ts'
import type { Handler, Response } from '../http/message/message.ts'
import { textResponse, withoutContent } from '../http/message/reply.ts'
import { originForm } from '../http/message/target.ts'
import { router } from '../http/server/router.ts'
import type { IdentityKey } from './keys/dynamic-config.ts'
import type { AuthMetrics } from './metrics.ts'
import { keySetHandler } from './pages/own-document.ts'

export function admin(sources: {
  /** The problems that keep the service from its work, a sentence each. */
  readonly problems: () => readonly string[]
  /** Further facts for the administrator, a sentence each. */
  readonly remarks: () => readonly string[]
  readonly metrics: AuthMetrics
  /** Whether a path has keys of the signed identity, and these keys. */
  readonly isKeyPath: (path: string) => boolean
  readonly identityKeys: () => readonly IdentityKey[]
}): Handler {
  const { problems, remarks, metrics, isKeyPath, identityKeys } = sources
  const route = router([
    { method: 'GET', path: '/healthz', handle: async () => textResponse(200, 'alive', plain) },
    { method: 'GET', path: '/readyz', handle: async () => ready(problems(), remarks()) },
    {
      method: 'GET',
      path: '/metrics',
      handle: async () => ({
        status: 200,
        fields: Fields.of(['Content-Type', metrics.contentType], ['Cache-Control', 'no-store']),
        content: { kind: 'bytes', bytes: Buffer.from(metrics.text()) },
      }),
    },
  ])
  const keys = keySetHandler(identityKeys)
  return async request => {
    const { path } = originForm(request.target)
    if (request.method === 'OPTIONS') return checked(ready(problems(), remarks()))
    if (isKeyPath(path)) return keys(request)
    return (
      (await route(request, path)) ??
      textResponse(404, 'There are /healthz, /readyz and /metrics here.')
    )
  }
}

/**
 * The answer to OPTIONS for any path. Health checks of load balancers send OPTIONS; that of HAProxy asks for `/` by default.
 */
function checked(answer: Response): Response {
  const { fields, ...rest } = withoutContent(answer)
  return { ...rest, fields: fields.plus('Allow', 'GET, HEAD, OPTIONS') }
}

const plain = { fields: Fields.of(['Cache-Control', 'no-store']) }

function ready(problems: readonly string[], remarks: readonly string[]): Response {
  const sentences = [...problems, ...remarks]
  return problems.length === 0
    ? textResponse(200, ['ready', ...sentences].join('\n'), plain)
    : textResponse(503, ['not ready', ...sentences].join('\n'), plain)
}
