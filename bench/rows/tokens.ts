/**
 * Requests with the token of a person beside requests with the session of a browser.
 */
import { tokenField } from '../../lib/auth/access/passthrough.ts'
import { tokensPath } from '../../lib/auth/gate/gateway-paths.ts'
import { formOf, ownForm, tokenIn } from '../../test/fixtures/gateway/token-lab.ts'
import { RawClient } from '../../test/fixtures/http/raw-client.ts'
import { sp } from '../../test/fixtures/saml/idp.ts'
import { pathOf as contentPath } from '../bare/content.ts'
import type { LoadPlan } from '../load.ts'
import { middle, signIn, TURNS } from './gateway.ts'
import { costOf, type Row, urlOf } from './row.ts'

const WARM_PLAN = { requests: 40_000, seconds: 60 }

export const tokenCost: Row = {
  title: 'A request with a token beside one with a session',
  note: '1 KB over 50 connections, the two take turns of a second; medians of the pairs',
  figures: {
    ratio: { title: 'CPU with a token divided by CPU with a session', better: 'less' },
    session: { title: 'CPU s for 100,000 requests with a session', better: 'less' },
  },
  subjects: ['authproxy'],
  async run(stage) {
    const program = await stage.start(`${stage.directory}/tokens`, { tokens: { longest: '30d' } })
    const staged = { ...stage, program }
    const turn = async (plan: LoadPlan) => {
      const run = () => stage.load.run(program.port, { ...plan, seconds: 1 })
      const { result, cpu } = await costOf(staged, run)
      return (cpu / result.responses) * 1e5
    }
    try {
      const session = (await signIn(stage.subject, program)) ?? ''
      const token = await tokenOf(session, program.port)
      const targets = [urlOf(stage, contentPath(1000, 'forwarded'))]
      const plan = { targets, as: 'origin', connections: 50, requests: 1e6 } as const
      const [first = '', second = ''] = session.split('\r\n')
      const field = `${first}\r\n${second}\r\n${tokenField}: Bearer ${token}`
      const plans = { session: { ...plan, fields: session }, token: { ...plan, fields: field } }
      for (const one of Object.values(plans))
        await stage.load.run(program.port, { ...one, ...WARM_PLAN })
      const ratios: number[] = []
      const costs: number[] = []
      for (let round = 0; round < stage.effort.seconds * TURNS; round += 1) {
        const cost = await turn(plans.session)
        ratios.push((await turn(plans.token)) / cost)
        costs.push(cost)
      }
      return { ratio: middle(ratios), session: middle(costs) }
    } finally {
      await program.stop()
    }
  },
}

/** A token that the person with this session makes. */
async function tokenOf(session: string, port: number): Promise<string> {
  const [, cookie = ''] = /Cookie: (.*)$/m.exec(session) ?? []
  const closing: Array<() => unknown> = []
  const client = await RawClient.connect({ teardown: close => void closing.push(close) }, port)
  const content = formOf({})
  const fields = { Host: sp.domain, Cookie: cookie, ...ownForm, Origin: sp.baseUrl }
  await client.request('POST', tokensPath, { ...fields, 'Content-Length': `${content.length}` })
  await client.write(content)
  const token = tokenIn(await client.response())
  for (const close of closing) close()
  if (token === undefined) throw new Error('no token was made')
  return token
}
