/**
 * Answers the checks of an edge that forwards requests itself. It reads which request is meant (read-check.ts), asks the gate,
 * and answers by the contract of the edge (check-answer.ts).
 */

import type { Clock } from '../../async/clock.ts'
import { continueWhenReady } from '../../async/ready.ts'
import { Fields } from '../../http/message/field.ts'
import type { Handler, Request, Response } from '../../http/message/message.ts'
import { pathAndQuery } from '../../http/message/target.ts'
import type { Logger } from '../../log/log.ts'
import { type ForeignName, treatments } from '../access/foreign-names.ts'
import type { OutcomeFacts } from '../access/outcome.ts'
import type { Backend } from '../backend/backend.ts'
import type { Config } from '../config/config.ts'
import { watchedFacts } from '../gate/denials.ts'
import { gate, isRefusedMethod, type Proof, samlPaths } from '../gate/gate.ts'
import type { SessionIdentity } from '../identity/session-identity.ts'
import type { SamlService } from '../login/service.ts'
import type { FailurePage } from '../pages/failure-page.ts'
import type { ProbeQuestion } from '../probe/probe.ts'
import type { Sessions } from '../session/sessions.ts'
import { decide, misroutedAnswer, passAnswer, sentenceAnswer } from './check-answer.ts'
import { Clients, type RefusedField } from './clients.ts'
import { contracts } from './contract.ts'
import { isProbePath, type ProbedChecks, probedIdentity } from './probed-checks.ts'
import { type AskedAbout, type CheckProblem, readCheck } from './read-check.ts'

/** What a reload replaces together. */
interface Rules {
  readonly config: Config
  readonly identity: SessionIdentity
  readonly backend: Pick<Backend, 'credential'>
}

export interface CheckParts {
  readonly rules: () => Rules
  readonly saml: Pick<SamlService, 'loginAddress' | 'unreadAttributes'>
  readonly sessions: Sessions
  readonly proof?: Proof | undefined
  readonly failurePage: FailurePage
  readonly instanceId: string
  readonly clock: Clock
  readonly log: Logger
  readonly probed: ProbedChecks
}

interface Judging {
  readonly asked: AskedAbout | CheckProblem
  readonly rules: Rules
  readonly parts: CheckParts
  readonly clients: Clients
}

export function checkHandler(parts: CheckParts): Handler {
  const { probed } = parts
  const clients = new Clients()
  return check => {
    const rules = parts.rules()
    const { forwardAuth } = rules.config
    if (forwardAuth === undefined) return misroutedAnswer(rules.config)
    const asked = readCheck(check, forwardAuth)
    const by = { asked, rules, parts, clients }
    const question = probed.questionIn(check, asked)
    if (question === undefined) return judge(check, by)
    const answer = answerProbe(question, by) ?? judge(check, by)
    return continueWhenReady(answer, answer => {
      const { refused } = clients.of(check.fields, rules)
      probed.remember(question.nonce, check, { asked, answer, claim: refused?.name })
      return answer
    })
  }
}

/** The answer to a probe of `authproxy doctor` for a path below `probePath`; undefined for other checks, which are judged. */
function answerProbe(
  { fails }: ProbeQuestion,
  { asked, rules, clients }: Pick<Judging, 'asked' | 'rules' | 'clients'>,
): Response | undefined {
  if ('code' in asked || !isProbePath(asked.place.path)) return undefined
  const facts = { outcome: 'probe' } as const
  if (fails === true) {
    return withAsked(sentenceAnswer(503, 'A check that is to fail.', facts), asked)
  }
  const names = [...rules.identity.none, ...rules.backend.credential].map(([name]) => name)
  const identity = Fields.fromFlat(names.flatMap(name => [name, probedIdentity]))
  const { id, fields } = asked.request
  const passed = clients.of(fields, rules).fieldsFor(identity, 'application')
  return withAsked(passAnswer(passed, { id, credential: Fields.empty }, facts), asked)
}

function judge(
  check: Request,
  { asked, rules, parts, clients }: Judging,
): Response | Promise<Response> {
  const { sessions, proof, saml, failurePage, instanceId, clock, log } = parts
  const { config } = rules
  if ('code' in asked) return malformed(check, asked, log)
  const { request, place, client } = asked
  const told = (answer: Response) => withAsked(answer, asked)
  const asker = clients.of(check.fields, rules)
  const { refused } = asker
  if (refused !== undefined) {
    const { code } = refusalBy(refused.row)
    const about = { category: 'FORWARD-AUTH-ERROR', code, id: check.id, client }
    log.warn(`FORWARD-AUTH-ERROR ${code}`, { ...about, field: refused.name.slice(0, 100) })
    return told(refusedFieldAnswer(refused))
  }
  if (isOwnPath(place.path)) return told(misroutedAnswer(config))
  if (isRefusedMethod(request.method)) return told(noMethod)
  if (asker.otherProtocol) return told(noProtocol)
  const { path, query } = place
  const session = () => sessions.read(asker.sessionFields)
  const now = clock.now()
  const verdict = gate({ request, path, query, client, now, instanceId, session, proof }, config)
  return continueWhenReady(verdict, judged => {
    const denied = { request, place, config, saml, failurePage }
    const contract = contracts[config.forwardAuth?.edge ?? 'nginx']
    const decision = decide(judged, denied, { contract, sessions, identity: rules.identity })
    return continueWhenReady(decision, decided => {
      if ('answer' in decided) return told(decided.answer)
      const { because, session: person, program, identity } = decided.admission
      const { passthrough, would, cookies } = decided.admission
      const { method, id } = request
      const [user, target] = [person?.subject, targetOf(asked)]
      const facts: OutcomeFacts = {
        outcome: 'allowed',
        because,
        user,
        program,
        passthrough,
        client,
        method,
        target,
        ...watchedFacts(would),
      }
      const { credential } = rules.backend
      return passAnswer(asker.fieldsFor(identity, cookies), { id, credential }, facts)
    })
  })
}

/** Whether the gateway answers a path itself, or reserves it. */
function isOwnPath(path: string): boolean {
  return samlPaths.has(path) || path.startsWith('/__authproxy/')
}

/**
 * The answer when the client sends a field that would tell the application something else than was judged, and the edge could pass that
 * field on. It names the field as our table does, and quotes no client.
 */
function refusedFieldAnswer({ row }: RefusedField): Response {
  const { name, family } = row
  const { code, because } = refusalBy(row)
  return sentenceAnswer(
    403,
    `${name}, in whatever spelling: this field of a client could ${treatments[family].could}, and the edge may pass it on. Where a proxy in front sets it, the edge has to remove it before the check. The log of authproxy has its spelling (FORWARD-AUTH-ERROR ${code}).`,
    { outcome: 'refused', because },
  )
}

function refusalBy({ family }: Pick<ForeignName, 'family'>) {
  return family === 'identity'
    ? ({ code: 'identity_field', because: 'identity-field' } as const)
    : ({ code: 'foreign_field', because: 'foreign-field' } as const)
}

const noMethod = sentenceAnswer(
  403,
  'The method of this request is not allowed. Methods are written in upper case.',
  {
    outcome: 'refused',
    because: 'method',
  },
)

const noProtocol = sentenceAnswer(
  403,
  'The only other protocol that may be opened is WebSockets.',
  {
    outcome: 'refused',
    because: 'upgrade',
  },
)

/** The answer to a check that does not keep to the contract: an error of the edge's configuration, or an attempt of its client. */
function malformed(
  check: Request,
  { status, code, sentence }: CheckProblem,
  log: Logger,
): Response {
  const { id, client } = check
  const about = { category: 'FORWARD-AUTH-ERROR', code } as const
  log.warn(`FORWARD-AUTH-ERROR ${code}`, { ...about, id, peer: client.address, sentence })
  return sentenceAnswer(status, sentence, { outcome: 'malformed', ...about })
}

/** The answer with facts for the log: the request that was asked about, instead of the check itself. */
function withAsked(answer: Response, asked: AskedAbout): Response {
  const { client, request } = asked
  const about = { client, method: request.method, target: targetOf(asked) }
  return { ...answer, facts: { ...answer.facts, ...about } }
}

function targetOf({ host, place }: AskedAbout): string {
  return `${host}${pathAndQuery(place)}`
}
