/**
 * Checks of an edge (forwardAuth) beside those of nginx that a static location answers, and beside forwarded requests.
 */
import { freePort } from '../../test/fixtures/process/ports.ts'
import { sp } from '../../test/fixtures/saml/idp.ts'
import { pathOf as contentPath } from '../bare/content.ts'
import type { LoadPlan } from '../load.ts'
import type { Program } from '../subject.ts'
import { middle, rateFigures, signIn, TURNS } from './gateway.ts'
import { costOf, type Row, type Stage, urlOf } from './row.ts'

/** A check each, of 200 addresses, over 50 connections. */
const CONNECTIONS = 50
/** A program that was started anew is compiled after some ten thousand requests, however busy the machine is. */
const WARM_PLAN = { requests: 40_000, seconds: 60 }
const ADDRESSES = 200

export const checkRate: Row = {
  title: 'Checks',
  note: '50 connections, a session, 200 addresses; nginx serves a small file each and asks a static location of its own',
  figures: rateFigures,
  subjects: ['authproxy', 'nginx with auth_request'],
  async run(stage) {
    if (stage.subject !== 'authproxy') return rateOf(stage, stage.program.port, planOf(stage))
    const { program, port, plan } = await startChecks(stage)
    try {
      return await rateOf({ ...stage, program }, port, plan)
    } finally {
      await program.stop()
    }
  },
}

export const checkCost: Row = {
  title: 'A check beside a forwarded request',
  note: 'checks, and requests for 1 KB, of a session over 50 connections take turns of a second; medians of the pairs',
  figures: {
    ratio: { title: 'CPU of a check divided by CPU of a request', better: 'less' },
    bare: { title: 'CPU s for 100,000 requests', better: 'less' },
  },
  subjects: ['authproxy'],
  async run(stage) {
    const { program, port, plan, session } = await startChecks(stage)
    const staged = { ...stage, program }
    const forwarded: LoadPlan = {
      ...{ targets: [urlOf(stage, contentPath(1000, 'forwarded'))], as: 'origin', fields: session },
      ...{ connections: CONNECTIONS, requests: 1e6 },
    }
    /** CPU seconds for 100,000, in a turn. */
    const turn = async (at: number, plan: LoadPlan) => {
      const run = () => stage.load.run(at, { ...plan, seconds: 1 })
      const { result, cpu } = await costOf(staged, run)
      return (cpu / result.responses) * 1e5
    }
    try {
      await stage.load.run(program.port, { ...forwarded, ...WARM_PLAN })
      await stage.load.run(port, { ...plan, ...WARM_PLAN })
      const ratios: number[] = []
      const costs: number[] = []
      for (let round = 0; round < stage.effort.seconds * TURNS; round += 1) {
        const request = await turn(program.port, forwarded)
        ratios.push((await turn(port, plan)) / request)
        costs.push(request)
      }
      return { ratio: middle(ratios), bare: middle(costs) }
    } finally {
      await program.stop()
    }
  },
}

/** An instance that answers checks as nginx sends them, and a plan of checks with a session. */
async function startChecks(stage: Stage) {
  const { subject, directory } = stage
  const port = await freePort()
  const listenAddress = `127.0.0.1:${port}`
  const forwardAuth = { listenAddress, edge: 'nginx', trustedProxies: ['127.0.0.1'] }
  const settings = { forwardAuth }
  const program: Program = await stage.start(`${directory}/checks`, settings)
  const session = await signIn(subject, program).catch(async (error: unknown) => {
    await program.stop()
    throw error
  })
  const fields = [
    `X-Original-Method: GET\r\nX-Original-Host: ${sp.domain}\r\nX-Forwarded-For: 192.0.2.9`,
    session ?? '',
  ].join('\r\n')
  return {
    program,
    port,
    session: session ?? '',
    plan: { ...planOf(stage), check: '/check', fields },
  }
}

function planOf(stage: Stage): LoadPlan {
  const targets = Array.from({ length: ADDRESSES }, (_, i) => urlOf(stage, `/page-${i}?x=${i}`))
  const { seconds } = stage.effort
  return { targets, connections: CONNECTIONS, requests: 1e6, seconds, as: 'origin' }
}

async function rateOf(stage: Stage, port: number, plan: LoadPlan) {
  await stage.load.run(port, { ...plan, ...WARM_PLAN })
  const { result, cpu } = await costOf(stage, () => stage.load.run(port, plan))
  const { responses, seconds, whole } = result
  return { rate: responses / seconds, cpu: (cpu / responses) * 1e5, p99: whole.p99 }
}
