/**
 * The page on which a person makes and ends tokens, and its forms. It has no script.
 */
import type { Clock } from '../../async/clock.ts'
import { day } from '../../async/clock.ts'
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
import type { ReadSession } from '../session/token.ts'
import type { TokenRecord } from './record.ts'

export interface TokenForm {
  readonly name: string
  readonly paths: readonly string[]
  readonly methods: readonly string[]
  readonly days: number
}

/** The token; why none is made; or the method and path that the rules do not allow. */
export type MadeToken =
  | { readonly token: string }
  | { readonly cannot: keyof typeof REASONS }
  | { readonly refused: string }

interface PageParts {
  readonly config: () => Config
  readonly page: PageMaker
  readonly clock: Clock
  readonly tokensOf: (session: ReadSession) => Promise<readonly TokenRecord[]>
  readonly make: (session: ReadSession, form: TokenForm) => Promise<MadeToken>
  readonly end: (token: TokenRecord, because: 'person') => Promise<void>
  readonly endAll: (session: ReadSession) => Promise<void>
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
const MOST_PATHS = 10
const LONGEST_PATH = 200
/** One line of visible text. */
const NAME = /^[^\p{C}\p{Zl}\p{Zp}]{1,60}$/u
const FORM = { size: 16_384, time: 10_000 }
const EMPTY: TokenForm = { name: '', paths: ['/'], methods: ['GET'], days: 7 }

/** Why a form was not obeyed, for the person; the form is shown again. */
interface Problem {
  readonly status: number
  readonly says: Sentence
  readonly words?: Readonly<Record<string, string>>
  readonly form?: TokenForm
}

/** Answers the page to a session of a browser. */
export function tokenPage(parts: PageParts) {
  return async (request: Request, session: ReadSession): Promise<Response> => {
    switch (request.method) {
      case 'GET':
        return shown(parts, request, session)
      case 'HEAD':
        return withoutContent(await shown(parts, request, session))
      case 'POST':
        return posted(parts, request, session)
      default:
        return methodNotAllowed(['GET', 'HEAD', 'POST'])
    }
  }
}

async function posted(parts: PageParts, request: Request, session: ReadSession): Promise<Response> {
  const { clock, config } = parts
  const again = (problem?: Problem) => shown(parts, request, session, problem)
  if (!isOwnPost(request, config().baseUrl) || !isOfDocument(request)) {
    return again({ status: 403, says: 'This form was not sent from this page. Nothing was done.' })
  }
  const content = await gather(request, { clock, ...FORM })
  const values = new URLSearchParams(typeof content === 'string' ? '' : content.toString())
  const ended = values.get('end')
  if (ended === 'all') {
    await parts.endAll(session)
    return again()
  }
  if (ended !== null) {
    const token = (await parts.tokensOf(session)).find(({ marks }) => marks[0] === ended)
    if (token === undefined) return again({ status: 404, says: 'You have no such token.' })
    await parts.end(token, 'person')
    return again()
  }
  const form = {
    name: (values.get('name') ?? '').trim(),
    paths: (values.get('paths') ?? '').split(/\s+/).filter(path => path !== ''),
    methods: METHODS.filter(method => values.getAll('methods').includes(method)),
    days: Number(values.get('days')),
  }
  const problem = problemOf(form, longestDays(config()))
  if (problem !== undefined) return again({ status: 400, ...problem, form })
  const made = await parts.make(session, form)
  if ('token' in made) return madePage(parts, request, made.token)
  if ('cannot' in made) return again({ ...REASONS[made.cannot], form })
  const words = { request: made.refused }
  return again({ status: 403, says: 'The rules do not allow you this: {request}', words, form })
}

const REASONS = {
  session: { status: 403, says: 'Your session has ended.' },
  several: { status: 409, says: 'You have as many tokens as a person may have. End one first.' },
  record: { status: 503, says: 'The token could not be made. Try again later.' },
  large: { status: 409, says: 'Your groups do not fit into a token.' },
} as const

/** Whether a browser sends the form of a page that a person sees: not a script, a service worker, or a frame of the application. */
function isOfDocument({ fields }: Request): boolean {
  const mode = fields.get('Sec-Fetch-Mode')
  return mode === undefined || (mode === 'navigate' && fields.get('Sec-Fetch-Dest') === 'document')
}

function problemOf(
  { name, paths, methods, days }: TokenForm,
  longest: number,
): Pick<Problem, 'says' | 'words'> | undefined {
  if (!NAME.test(name)) return { says: 'The name is one line of at most 60 characters.' }
  const bad = paths.find(path => path.length > LONGEST_PATH || pathRuleProblem(path) !== undefined)
  if (bad !== undefined || paths.length === 0 || paths.length > MOST_PATHS) {
    const words = { path: bad?.slice(0, LONGEST_PATH) ?? '' }
    return { says: 'Name one to ten paths, as the application writes them. {path}', words }
  }
  if (methods.length === 0) return { says: 'Choose a method.' }
  const isOne = Number.isInteger(days) && days >= 1 && days <= longest
  return isOne
    ? undefined
    : { says: 'Choose from 1 to {days} days.', words: { days: `${longest}` } }
}

function longestDays({ tokens }: Config): number {
  return Math.floor((tokens.longest ?? 0) / day)
}

async function shown(
  { page, config, tokensOf }: PageParts,
  request: Request,
  session: ReadSession,
  problem?: Problem,
): Promise<Response> {
  const tokens = await tokensOf(session)
  const { form = EMPTY, status = 200 } = problem ?? {}
  const longest = longestDays(config())
  return page({
    request,
    template: 'tokens',
    status,
    // The forms of the page have to say where they come from.
    fields: Fields.of(['Referrer-Policy', 'same-origin']),
    view: say => ({
      title: say('Tokens for programs'),
      problem: problem ? say(problem.says, problem.words) : false,
      about: say('A program that has a token of yours acts as {user}.', { user: session.subject }),
      none: tokens.length === 0 && say('You have no tokens.'),
      tokens: tokens.map(({ name, marks, paths, methods, created, expires }) => ({
        name,
        id: marks[0],
        end: say('End the token {name}', { name }),
        facts: [
          { label: say('Paths'), value: paths.join(' ') },
          { label: say('Methods'), value: methods.join(' ') },
          { label: say('Made'), value: moment(created) },
          { label: say('Valid until'), value: moment(expires) },
          { label: say('ID'), value: marks[0] },
        ],
      })),
      all: tokens.length > 0 && say('End all tokens'),
      make: say('Make a token'),
      nameLabel: say('Name'),
      nameValue: form.name,
      pathsLabel: say('Paths, one on each line; / at the end means all below'),
      pathsValue: form.paths.join('\n'),
      methodsLabel: say('Methods'),
      methods: METHODS.map(method => ({ method, checked: form.methods.includes(method) })),
      daysLabel: say('Days, at most {days}', { days: `${longest}` }),
      daysValue: Math.min(form.days || 1, longest),
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
