/**
 * The page on which a person makes and ends tokens, and its forms. It has no script.
 */
import { type Clock, day } from '../../async/clock.ts'
import { moment } from '../../figures.ts'
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { withoutContent } from '../../http/message/reply.ts'
import { gather } from '../../http/server/gather.ts'
import { methodNotAllowed } from '../../http/server/router.ts'
import { isOwnPost } from '../access/own-origin.ts'
import { pathRuleProblem } from '../access/path-rule.ts'
import type { Config } from '../config/config.ts'
import type { Sentence } from '../pages/language.ts'
import type { PageMaker } from '../pages/page.ts'
import { browserHash, browserIn } from '../session/cookie.ts'
import type { ReadSession } from '../session/token.ts'
import type { TokenRecord } from './record.ts'

export interface TokenForm {
  readonly name: string
  readonly paths: readonly string[]
  readonly methods: readonly string[]
  readonly days: number
}

interface PageParts {
  readonly config: () => Config
  readonly page: PageMaker
  readonly clock: Clock
  readonly tokensOf: (session: ReadSession) => Promise<readonly TokenRecord[]>
  readonly make: (session: ReadSession, form: TokenForm) => Promise<{ token: string } | Problem>
  readonly end: (token: TokenRecord) => Promise<void>
  readonly endAll: (session: ReadSession) => Promise<void>
}

/** Why a form was not obeyed, for the person. */
export interface Problem {
  readonly status: number
  readonly says: Sentence
  readonly words?: Readonly<Record<string, string>>
}

export const problems = {
  foreign: { status: 403, says: 'This form was not sent from this page. Nothing was done.' },
  unknown: { status: 404, says: 'You have no such token.' },
  session: { status: 403, says: 'Your session has ended.' },
  rules: { status: 403, says: 'The rules do not allow you this: {request}' },
  several: { status: 409, says: 'You have as many tokens as a person may have. End one first.' },
  often: { status: 429, says: 'The token could not be made. Try again later.' },
  record: { status: 503, says: 'The token could not be made. Try again later.' },
  large: { status: 409, says: 'Your groups do not fit into a token.' },
  name: { status: 400, says: 'The name is one line of at most 60 characters.' },
  paths: { status: 400, says: 'Name one to ten paths, as the application writes them.' },
  methods: { status: 400, says: 'Choose a method.' },
  days: { status: 400, says: 'Days, at most {days}' },
} as const satisfies Readonly<Record<string, Problem>>

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
const MOST_PATHS = 10
const LONGEST_PATH = 200
/** One line of visible text. */
const NAME = /^[^\p{C}\p{Zl}\p{Zp}]{1,60}$/u
const CONTENT = { size: 16_384, time: 10_000 }
const EMPTY: TokenForm = { name: '', paths: ['/'], methods: ['GET'], days: 7 }

/** Answers the page to a session of a browser. */
export function tokenPage(parts: PageParts) {
  return async (request: Request, session: ReadSession): Promise<Response> => {
    const { method } = request
    if (method === 'POST') return posted(parts, request, session)
    if (method === 'GET') return shown(parts, { request, session })
    return method === 'HEAD'
      ? withoutContent(await shown(parts, { request, session }))
      : methodNotAllowed(['GET', 'HEAD', 'POST'])
  }
}

async function posted(parts: PageParts, request: Request, session: ReadSession): Promise<Response> {
  const { clock, config } = parts
  const again = (problem?: Problem, form = EMPTY) =>
    shown(parts, { request, session, problem, form })
  const isForeign = !isOwnPost(request, config().baseUrl) || !isOfDocument(request)
  if (isForeign || !isOfItsBrowser(request, session)) return again(problems.foreign)
  const content = await gather(request, { clock, ...CONTENT })
  const values = new URLSearchParams(typeof content === 'string' ? '' : content.toString())
  const ended = values.get('end')
  if (ended !== null) {
    const token = (await parts.tokensOf(session)).find(({ id }) => id === ended)
    if (ended === 'all') await parts.endAll(session)
    else if (token === undefined) return again(problems.unknown)
    else await parts.end(token)
    return again(ended === 'all' ? { ...problems.session, status: 200 } : undefined)
  }
  const form = {
    name: (values.get('name') ?? '').trim(),
    paths: (values.get('paths') ?? '').split(/\s+/).filter(path => path !== ''),
    methods: METHODS.filter(method => values.getAll('methods').includes(method)),
    days: Number(values.get('days')),
  }
  const made = problemOf(form, longestDays(config())) ?? (await parts.make(session, form))
  return 'token' in made ? madePage(parts, request, made.token) : again(made, form)
}

/** Whether a person sends the form of a page in a browser: not a script, a service worker, or a frame of the application. */
function isOfDocument({ fields }: Request): boolean {
  const mode = fields.get('Sec-Fetch-Mode')
  return mode === undefined || (mode === 'navigate' && fields.get('Sec-Fetch-Dest') === 'document')
}

/** Whether the cookie of the browser comes along, also where `session.browser` lets programs send the session alone. */
function isOfItsBrowser({ fields }: Request, { browser }: ReadSession): boolean {
  const name = browserIn(fields)
  return name !== undefined && browserHash(name) === browser
}

function problemOf(form: TokenForm, longest: number): Problem | undefined {
  const { name, paths, methods, days } = form
  if (!NAME.test(name)) return problems.name
  const isGood = (path: string) =>
    path.length <= LONGEST_PATH && pathRuleProblem(path) === undefined
  if (paths.length === 0 || paths.length > MOST_PATHS || !paths.every(isGood)) return problems.paths
  if (methods.length === 0) return problems.methods
  const isOne = Number.isInteger(days) && days >= 1 && days <= longest
  return isOne ? undefined : { ...problems.days, words: { days: `${longest}` } }
}

function longestDays({ tokens }: Config): number {
  return Math.floor((tokens.longest ?? 0) / day)
}

interface Shown {
  readonly request: Request
  readonly session: ReadSession
  readonly problem?: Problem | undefined
  readonly form?: TokenForm
}

async function shown({ page, config, tokensOf }: PageParts, of: Shown): Promise<Response> {
  const { request, session, problem, form = EMPTY } = of
  const tokens = await tokensOf(session)
  const longest = longestDays(config())
  return page({
    request,
    template: 'tokens',
    status: problem?.status ?? 200,
    // The forms of the page have to say where they come from.
    fields: Fields.of(['Referrer-Policy', 'same-origin']),
    view: say => ({
      title: say('Tokens for programs'),
      problem: problem ? say(problem.says, problem.words) : false,
      about: say('A program that has a token of yours acts as {user}.', { user: session.subject }),
      tokens: tokens.map(({ id, name, paths, methods, created, expires }) => ({
        name,
        id,
        end: say('End the token {name}', { name }),
        facts: [
          { label: say('Paths'), value: paths.join(' ') },
          { label: say('Methods'), value: methods.join(' ') },
          { label: say('Made'), value: moment(created) },
          { label: say('Valid until'), value: moment(expires) },
          { label: say('ID in the log'), value: id },
        ],
      })),
      endAll: say('End all tokens, and sign out everywhere'),
      make: say('Make a token'),
      nameLabel: say('Name of the token'),
      pathsLabel: say('Paths, one on each line; / at the end means all below'),
      methodsLabel: say('Methods'),
      daysLabel: say('Days, at most {days}', { days: `${longest}` }),
      written: { ...form, paths: form.paths.join('\n'), days: Math.min(form.days || 1, longest) },
      methods: METHODS.map(method => ({ method, checked: form.methods.includes(method) })),
      longest,
    }),
  })
}

/** The only answer that has the token. Its document has no origin (`sandbox`): no script of the application can read it. */
function madePage({ page }: PageParts, request: Request, token: string): Response {
  return page({
    request,
    template: 'token-made',
    sandbox: true,
    view: say => ({
      title: say('Your new token'),
      once: say('Copy it now. It is not shown again. A program sends it in this header:'),
      token,
      back: say('Back to your tokens'),
    }),
  })
}
