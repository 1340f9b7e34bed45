/**
 * A development IdP on HTTP: paths to decisions, replies to responses. Listens on loopback addresses alone.
 */
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { packageRoot } from '../../package.ts'
import { Templates } from '../../template.ts'
import { isAnswer } from './answer.ts'
import type { DevProvider, Reply } from './provider.ts'

/** Bytes of a form: a signed AuthnRequest is a few thousand. */
const FORM_LIMIT = 256 * 1024
const COOKIE = 'dev_idp_session'

/** The server, not listening yet; without a provider it answers 503. Throws when its templates are missing. */
export function createDevIdpServer(provider: () => DevProvider | undefined): Server {
  const templates = Templates.read(join(packageRoot(), 'templates', 'dev-idp'))
  return createServer((request, response) => {
    const ready = provider()
    if (ready === undefined) {
      response.writeHead(503, { 'Retry-After': '1' }).end()
      return
    }
    answer(ready, request)
      .then(reply => send(templates, reply, response))
      .catch(() => response.destroy())
  })
}

async function answer(provider: DevProvider, request: IncomingMessage): Promise<Reply> {
  const { method = 'GET', url = '/' } = request
  const mark = url.indexOf('?')
  const path = mark < 0 ? url : url.slice(0, mark)
  const query = mark < 0 ? undefined : url.slice(mark + 1)
  const cookie = new RegExp(`(?:^|; ?)${COOKIE}=(_[0-9a-f]{32})`).exec(
    request.headers.cookie ?? '',
  )?.[1]
  const form = method === 'POST' ? await formOf(request) : undefined
  switch (path) {
    case '/':
      return provider.index(cookie)
    case '/metadata':
      return provider.metadata()
    case '/sso':
      return provider.signOn(query, form, cookie)
    case '/start':
      return provider.unsolicited(new URLSearchParams(query).get('service') ?? '')
    case '/login': {
      const way = form?.get('answer') ?? 'right'
      return provider.logIn(form ?? new URLSearchParams(), isAnswer(way) ? way : 'right')
    }
    case '/slo':
      return provider.logout(query, form, cookie)
    case '/logout':
      return provider.startLogout(cookie)
    default:
      return {
        reply: 'page',
        template: 'refused',
        view: { text: 'There is no such page.' },
        status: 404,
      }
  }
}

async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  const blocks: Buffer[] = []
  let size = 0
  for await (const block of request) {
    size += block.length
    if (size > FORM_LIMIT) throw new Error('the form is too large')
    blocks.push(block)
  }
  return new URLSearchParams(Buffer.concat(blocks).toString())
}

function send(templates: Templates, reply: Reply, response: ServerResponse): void {
  response.setHeader('Cache-Control', 'no-store')
  switch (reply.reply) {
    case 'xml':
      response.setHeader('Content-Type', 'application/samlmetadata+xml')
      response.end(reply.xml)
      return
    case 'redirect':
      response.writeHead(303, { Location: reply.to }).end()
      return
    case 'page':
      html(
        response,
        reply.status ?? 200,
        templates.render(reply.template, { ...reply.view, nonce: '' }),
      )
      return
    case 'form': {
      const nonce = randomBytes(16).toString('base64')
      if (reply.session !== undefined) {
        response.setHeader(
          'Set-Cookie',
          `${COOKIE}=${reply.session}; Path=/; HttpOnly; SameSite=Lax`,
        )
      }
      html(
        response,
        200,
        templates.render('form', { ...reply.view, nonce }),
        `script-src 'nonce-${nonce}'; `,
      )
      return
    }
  }
}

function html(response: ServerResponse, status: number, text: string, script = ''): void {
  // No form-action: browsers hold it against the redirects that follow a login, too.
  const policy = `default-src 'none'; style-src 'unsafe-inline'; ${script}frame-ancestors 'none'; base-uri 'none'`
  response.writeHead(status, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': policy,
    'Referrer-Policy': 'no-referrer',
  })
  response.end(text)
}
