/**
 * A kept form on its way out: handed over to the post of our own page, once, when who is signed in now is who had filled it in.
 */
import { Fields } from '../../http/message/field.ts'
import type { Request, Response } from '../../http/message/message.ts'
import { isOwnPost } from '../access/own-post.ts'
import { withoutFlow } from '../saml/login-state.ts'
import { keepState, type Saml, stateOf } from '../saml/parts.ts'
import type { Session } from '../session/token.ts'
import type { Stash } from './kept-forms.ts'
import { ownerOf } from './owner.ts'

/** A kept form, handed out once, or the page that says why it is not sent. */
export type Replay =
  | { readonly stash: Stash; readonly setCookie: Fields }
  | { readonly refuse: Response }

/** What is sent in the place of a post of our page, or the page that says why nothing is. */
export function takeReplay(
  saml: Saml,
  request: Request,
  asked: { readonly handle: string; readonly session: Session; readonly target: string },
): Replay {
  const { handle, session, target } = asked
  if (!isOwnPost(request, saml.config().baseUrl)) {
    return { refuse: notSent(saml, request, { because: 'foreign', target: '/' }) }
  }
  const { state } = stateOf(saml, request)
  const key = state.flows.find(flow => flow.id === handle && flow.done)?.stash
  const place = { owner: ownerOf(session), target }
  const taken = key === undefined ? undefined : saml.stashes.take(handle, key, place)
  const fields = Fields.of(['Set-Cookie', keepState(saml, withoutFlow(state, handle))])
  if (taken === undefined || 'because' in taken) {
    const because = taken?.because ?? 'gone'
    return { refuse: notSent(saml, request, { because, target, fields }) }
  }
  const bytes = taken.stash.content.length
  saml.log.info('sent a form that was kept', { request: request.id, session: session.id, bytes })
  return { stash: taken.stash, setCookie: fields }
}

/** The page that says that a form was not sent. */
export function notSent(
  saml: Saml,
  request: Request,
  what: {
    readonly because: 'gone' | 'other-user' | 'foreign'
    /** Where to go on to. */
    readonly target: string
    readonly fields?: Fields
  },
): Response {
  const { because, target: href, fields = Fields.empty } = what
  const code = CODES[because]
  saml.outcomes.count(code)
  return saml.failurePage({ request, code, action: { href, label: 'Continue' }, fields })
}

const CODES = {
  gone: 'resubmission_gone',
  'other-user': 'resubmission_other_user',
  foreign: 'resubmission_foreign',
} as const
