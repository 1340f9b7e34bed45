/**
 * What becomes of an answer of the identity provider, by its facts: each combination.
 */
import t from 'tap'
import { type AnswerFacts, outcomeOf } from '../../../lib/auth/login/acs.ts'

const steps = ['cookies', 'verification', 'assertion', 'use', 'end'] as const
const names = ['nothing', 'login', 'replacement'] as const
const either = [false, true]

function* combinations(): Generator<AnswerFacts> {
  for (const at of steps)
    for (const named of names)
      for (const mayResume of either)
        for (const mayBegin of either)
          for (const signedIn of either)
            for (const heldBack of either)
              for (const passive of either)
                yield { at, names: named, mayResume, mayBegin, signedIn, heldBack, passive }
}

t.test('an answer is accepted at the end alone', async t => {
  for (const facts of combinations()) {
    const isEnd = facts.at === 'end'
    if ((outcomeOf(facts) === 'session') !== isEnd) t.fail(JSON.stringify(facts))
  }
  t.pass('all 480')
})

t.test('no other outcome goes on without its reason', async t => {
  for (const facts of combinations()) {
    const outcome = outcomeOf(facts)
    const { at, passive, heldBack, mayResume, mayBegin, signedIn, names } = facts
    const isRight =
      outcome === 'refused' ||
      outcome === 'session' ||
      (outcome === 'no-session' && at === 'verification' && passive) ||
      (outcome === 'posted-again' && at === 'cookies' && heldBack) ||
      (outcome === 'begun-here' && mayResume && mayBegin && names === 'nothing') ||
      (outcome === 'goes-on' && mayResume && signedIn && names === 'nothing') ||
      (outcome === 'resumed' && mayResume && names !== 'nothing')
    if (!isRight) t.fail(`${outcome}: ${JSON.stringify(facts)}`)
  }
  t.pass('all 480')
})

t.test('rows', async t => {
  const none: AnswerFacts = {
    ...{ at: 'cookies', names: 'nothing', mayResume: false, mayBegin: false },
    ...{ signedIn: false, heldBack: false, passive: false },
  }
  for (const [more, outcome] of [
    [{}, 'refused'],
    [{ at: 'verification', passive: true }, 'no-session'],
    [{ at: 'verification', names: 'login' }, 'refused'],
    [{ at: 'verification', names: 'login', mayResume: true }, 'resumed'],
    [{ at: 'assertion', names: 'replacement', mayResume: true }, 'refused'],
    [{ at: 'assertion', mayResume: true, mayBegin: true }, 'begun-here'],
    [{ at: 'use', names: 'login', mayResume: true }, 'resumed'],
    [{ mayResume: true, heldBack: true, names: 'login' }, 'posted-again'],
    [{ mayResume: true, signedIn: true }, 'goes-on'],
    [{ mayResume: true, signedIn: true, names: 'replacement' }, 'resumed'],
    [{ mayResume: true }, 'refused'],
  ] as const) {
    t.equal(outcomeOf({ ...none, ...more }), outcome, JSON.stringify(more))
  }
})
