/**
 * The ways a development IdP answers a login, right, or wrong to show how the gateway refuses it.
 */
import { hour, type Milliseconds } from '../../async/clock.ts'
import { status } from '../../auth/saml/core/vocabulary.ts'
import type { SigningKey } from '../../auth/saml/signature/sign.ts'
import type { Writing } from './response.ts'

/** A way to answer: its text on the login page, and how it changes the right response. */
interface Way {
  readonly label: string
  readonly change: (right: Writing, strangerKey: SigningKey) => Writing
}

/** In the order of the login page. */
export const ways: ReadonlyMap<string, Way> = new Map(
  Object.entries({
    right: { label: 'as it should be', change: right => right },
    unsigned: { label: 'without a signature', change: right => ({ ...right, signs: 'nothing' }) },
    stranger: {
      label: 'signed with a key that is not in the metadata',
      change: (right, key) => ({ ...right, key }),
    },
    early: { label: 'with a clock an hour ahead', change: right => shifted(right, hour) },
    late: { label: 'with a clock an hour behind', change: right => shifted(right, -hour) },
    audience: {
      label: 'for another service',
      change: right => withAssertion(right, { audience: 'https://another.example/saml/metadata' }),
    },
    nameless: {
      label: 'without a name',
      change: right => withAssertion(right, { nameId: undefined, attributes: [] }),
    },
    refused: {
      label: 'a login that failed',
      change: right => ({ ...right, response: { ...right.response, status: status.responder } }),
    },
  } satisfies Record<string, Way>),
)

function withAssertion(right: Writing, more: Partial<Writing['assertion']>): Writing {
  return { ...right, assertion: { ...right.assertion, ...more } }
}

function shifted(right: Writing, by: Milliseconds): Writing {
  const { issued, notBefore, notOnOrAfter, authenticated } = right.assertion
  return withAssertion(
    { ...right, response: { ...right.response, issued: issued + by } },
    {
      issued: issued + by,
      notBefore: notBefore + by,
      notOnOrAfter: notOnOrAfter + by,
      authenticated: Math.min(authenticated, issued + by),
    },
  )
}
