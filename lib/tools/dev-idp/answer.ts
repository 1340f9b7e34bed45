/**
 * How a development IdP answers a login: as its profile does, or wrong in one way, so that one can see what the gateway says.
 */
import type { Milliseconds } from '../../async/clock.ts'
import type { SigningKey } from '../../auth/saml/core/signature.ts'
import { status } from '../../auth/saml/core/vocabulary.ts'
import type { Person } from './people.ts'
import type { DevProfile } from './profile.ts'
import { writeResponse } from './response.ts'
import type { ServiceProvider } from './service.ts'

/** The ways to answer, in the order of the login page. */
export const answers = {
  right: 'as it should be',
  unsigned: 'without a signature',
  stranger: 'signed with a key nobody knows',
  early: 'with a clock an hour ahead',
  late: 'with a clock an hour behind',
  audience: 'for another service',
  nameless: 'without any name',
  refused: 'that the login failed',
} as const

export type AnswerName = keyof typeof answers

/** Whether a word from a form is a way to answer. */
export function isAnswer(word: string): word is AnswerName {
  return Object.hasOwn(answers, word)
}

export interface Answering {
  readonly answer: AnswerName
  readonly person: Person
  readonly to: ServiceProvider
  readonly profile: DevProfile
  readonly baseUrl: string
  readonly key: SigningKey
  /** A key that stands in no metadata. */
  readonly strangerKey: SigningKey
  readonly inResponseTo: string | undefined
  readonly sessionIndex: string
  readonly authenticated: Milliseconds
  readonly now: Milliseconds
  /** PEM certificate to encrypt to. */
  readonly encryptTo: string | undefined
  readonly encryptParts: boolean
  /** A fresh ID, fit for XML. */
  readonly id: () => string
}

const HOUR = 3_600_000
const VALID = 300_000

/** The Response in XML. */
export function answerXml(asked: Answering): string {
  const { answer, person, to, profile, key, encryptTo, encryptParts, id } = asked
  const { inResponseTo } = asked
  const issuer = profile.entityId(asked.baseUrl)
  const now = asked.now + (answer === 'early' ? HOUR : answer === 'late' ? -HOUR : 0)
  const authenticated = Math.min(asked.authenticated, now)
  return writeResponse({
    response: {
      ...{ id: id(), issuer, issued: now, destination: to.acs, inResponseTo },
      ...(answer === 'refused' && { status: status.responder }),
    },
    assertion: {
      ...{ id: id(), issuer, issued: now, authenticated, inResponseTo },
      nameId: answer === 'nameless' ? undefined : profile.nameId(person),
      recipient: to.acs,
      audience: answer === 'audience' ? 'https://another.example/saml/metadata' : to.entityId,
      notBefore: now + profile.notBefore,
      notOnOrAfter: now + VALID,
      sessionIndex: asked.sessionIndex,
      attributes: answer === 'nameless' ? [] : profile.attributes(person),
    },
    signs: answer === 'unsigned' ? 'nothing' : profile.signs,
    key: answer === 'stranger' ? asked.strangerKey : key,
    ...(encryptTo !== undefined && { encryptTo, encryptParts, encryption: profile.encryption }),
  })
}
