/**
 * The parts that the steps of login and logout share: those the service was given, and those it has made.
 */
import type { Clock } from '../../async/clock.ts'
import type { Request } from '../../http/message/message.ts'
import type { Allowance } from '../../http/server/gather.ts'
import type { Logger } from '../../log/log.ts'
import type { SamlConfig } from '../config/config.ts'
import type { IdpLink } from '../idp/idp-link.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import type { PageMaker } from '../pages/page.ts'
import type { Sessions } from '../session/sessions.ts'
import type { CookiesOfRequest } from './cookies.ts'
import type { FormStore, KeptForms } from './kept-forms.ts'
import type { SharedIds, SharedTries, UsedAnswers } from './used-answers.ts'

/** What each step uses, of the parts that the service is given. */
interface CommonParts {
  readonly config: () => SamlConfig
  readonly sessions: Pick<
    Sessions,
    'establish' | 'read' | 'end' | 'canRevoke' | 'revoke' | 'diagnose' | 'useIssuer' | 'lastUnread'
  >
  /** The cookies of logins. */
  readonly cookies: CookiesOfRequest
  readonly failurePage: FailurePage
  readonly page: PageMaker
  readonly clock: Clock
  /** Makes this number of random bytes, fit for keys. */
  readonly random: (size: number) => Buffer
  readonly log: Logger
  /** The client's address, read from the fields of trusted proxies; for logs and limits. */
  readonly clientAddress: (request: Request) => string
  /** Counts how a login or a logout ended, by its code: `accepted`, `signature`, `audience`, … */
  readonly count: (code: string) => void
}

/** The parts the SAML service is given. */
export interface SamlParts extends CommonParts {
  readonly keys: Pick<KeyRing, 'saml' | 'sealingKeys'>
  /** The state that instances share; undefined where `state.url` is not set. */
  readonly shared?: SharedParts | undefined
}

/** The state of logins that instances share by a store. */
export interface SharedParts extends SharedIds, SharedTries {
  readonly forms: FormStore
}

export interface Saml extends CommonParts {
  readonly idp: IdpLink
  readonly used: UsedAnswers
  readonly forms: KeptForms
  /** Memory for forms that are being read. */
  readonly room: Allowance
}
