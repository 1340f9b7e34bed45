/**
 * authproxy beside a plain proxy: requests of a signed-in user, content both ways, WebSockets, logins, memory.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Response } from '../../lib/http/message/message.ts'
import { WholeBrowser } from '../../test/fixtures/gateway/whole-browser.ts'
import { formOf, hrefOf, pathOf, readAsked } from '../../test/fixtures/saml/browser.ts'
import { sp } from '../../test/fixtures/saml/idp.ts'
import { pathOf as contentPath } from '../bare/content.ts'
import type { LoadPlan } from '../load.ts'
import { identityProvider, type Program, type SubjectName } from '../subject.ts'
import { costOf, type Row, type Stage, throughputFigures, throughputOf, urlOf } from './row.ts'

const subjects: Row['subjects'] = [
  'authproxy',
  'nginx as a plain proxy',
  'mod_auth_mellon',
  'bare gateway',
]
export const rateFigures = {
  rate: { title: 'requests/s', better: 'more' },
  cpu: { title: 'CPU s for 100,000 requests', better: 'less' },
  p99: { title: 'p99, ms', better: 'less' },
} as const

/** What a measurement is done with beside what its row says. */
type Work = Pick<LoadPlan, 'connections' | 'upload' | 'echo'> & { readonly bytes: number }

export const gatewaySmall = rates('Forwarding 1 KB', '50 connections', {
  connections: 50,
  bytes: 1000,
})
export const gatewayMiddle = rates('Forwarding 100 KB', '50 connections', {
  connections: 50,
  bytes: 100_000,
})
export const gatewayPosts = rates('Posts of 1 KB', '50 connections, answers of 1 KB', {
  connections: 50,
  bytes: 1000,
  upload: 1000,
})
export const gatewaySockets = rates(
  'WebSocket round trips',
  '50 connections, 128 bytes there and back',
  { connections: 50, bytes: 128, echo: 128 },
)
export const gatewayDownload = throughput('Forwarding 100 MB', {
  connections: 4,
  bytes: 100_000_000,
})
export const gatewayUpload = throughput('Uploads of 100 MB', {
  connections: 4,
  bytes: 1000,
  upload: 100_000_000,
})

/** From the request for a page to the page, with an identity provider that answers at once. */
export const gatewayLogins: Row = {
  title: 'Logins',
  note: '8 at a time, each with a signed answer that is not encrypted',
  figures: {
    rate: { title: 'logins/s', better: 'more' },
    cpu: { title: 'CPU ms each', better: 'less' },
  },
  subjects: ['authproxy', 'mod_auth_mellon'],
  async run({ subject, program, effort }) {
    const logins = async (seconds: number) => {
      const until = performance.now() + seconds * 1000
      let done = 0
      const one = async () => {
        for (; performance.now() < until; done += 1) await signIn(subject, program)
      }
      await Promise.all(Array.from({ length: 8 }, one))
      return done
    }
    await logins(Math.max(2, effort.seconds / 2))
    const [before, began] = [program.cpu(), performance.now()]
    const done = await logins(effort.seconds)
    const seconds = (performance.now() - began) / 1000
    return { rate: done / seconds, cpu: ((program.cpu() - before) / done) * 1000 }
  },
}

export const gatewayMemory: Row = {
  title: 'Memory of a gateway',
  note: 'proportional set size of all processes, started anew; most while 500 connections ask for 1 KB',
  figures: {
    idle: { title: 'idle, MB', better: 'less' },
    connections: { title: 'most with 500 connections, MB', better: 'less' },
  },
  subjects,
  async run(stage) {
    const { directory, effort } = stage
    const program = await stage.start(`${directory}/memory`)
    try {
      await pause(effort.rest)
      const idle = program.pss()
      let connections = idle
      let over = false
      const plan = await planOf({ ...stage, program }, { connections: 500, bytes: 1000 })
      const run = stage.load.run(program.port, plan).finally(() => {
        over = true
      })
      while (!over) {
        await Promise.race([run, pause(100)])
        connections = Math.max(connections, program.pss())
      }
      await run
      return { idle, connections }
    } finally {
      await program.stop()
    }
  },
}

/** What rules of access cost a request: two gateways take turns, one with 20 rules of which the last decides. */
export const gatewayRules: Row = {
  title: 'Rules of access',
  note: '1 KB over 50 connections; a gateway with 20 rules, of which the last decides, and one without take turns of a second; medians of the pairs',
  figures: {
    ratio: { title: 'CPU with rules divided by CPU without', better: 'less' },
    bare: { title: 'CPU s for 100,000 requests without rules', better: 'less' },
  },
  subjects: ['authproxy'],
  async run(stage) {
    const { directory, effort } = stage
    const programs: Program[] = []
    const start = async (name: string, settings: object) => {
      const program = await stage.start(`${directory}/${name}`, settings)
      programs.push(program)
      const staged = { ...stage, program }
      const plan = await planOf(staged, { connections: 50, bytes: 1000 })
      await stage.load.run(program.port, { ...plan, seconds: WARM })
      /** CPU seconds for 100,000 requests, in a turn. */
      return async () => {
        const run = () => stage.load.run(program.port, { ...plan, seconds: 1 })
        const { result, cpu } = await costOf(staged, run)
        return (cpu / result.responses) * 1e5
      }
    }
    try {
      const bare = await start('bare', {})
      const ruled = await start('ruled', { access: twentyRules })
      const ratios: number[] = []
      const costs: number[] = []
      // Each pair begins with the gateway that ended the pair before, so that a slow change of the machine concerns both.
      for (let turn = 0; turn < effort.seconds * TURNS; turn += 1) {
        const even = turn % 2 === 0
        const first = await (even ? bare : ruled)()
        const second = await (even ? ruled : bare)()
        costs.push(even ? first : second)
        ratios.push(even ? second / first : first / second)
      }
      return { ratio: middle(ratios), bare: middle(costs) }
    } finally {
      for (const program of programs) await program.stop()
    }
  },
}

/** The median, which a disturbance of a few turns does not change. */
export function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** Seconds until a Node.js program is compiled. */
const WARM = 4
/** Turns of each gateway for a second of effort. */
export const TURNS = 3

const twentyRules = [
  ...Array.from({ length: 17 }, (_, i) => ({
    path: `/department-${i}/`,
    allow: [{ groups: [`department-${i}`, 'ops'] }],
  })),
  { path: '/admin/', methods: ['POST', 'PUT', 'PATCH', 'DELETE'], allow: [{ groups: 'admins' }] },
  { path: '/metrics', allow: 'nobody' },
  { path: '/', allow: [{ groups: 'admins' }, { users: '*@example.org' }] },
]

function rates(title: string, note: string, work: Work): Row {
  return {
    title,
    note,
    figures: rateFigures,
    subjects,
    async run(stage) {
      const { result, cpu } = await warmCost(stage, work)
      const { responses, seconds, whole } = result
      return { rate: responses / seconds, cpu: (cpu / responses) * 1e5, p99: whole.p99 }
    },
  }
}

function throughput(title: string, work: Work): Row {
  return {
    title,
    note: `${work.connections} connections`,
    figures: throughputFigures,
    subjects,
    run: async stage => throughputOf(await warmCost(stage, work)),
  }
}

async function warmCost(stage: Stage, work: Work) {
  const plan = await planOf(stage, work)
  // A Node.js program needs some seconds of the same work until it is compiled.
  await stage.load.run(stage.program.port, { ...plan, seconds: Math.max(2, plan.seconds / 2) })
  return costOf(stage, () => stage.load.run(stage.program.port, plan))
}

async function planOf(stage: Stage, { bytes, ...work }: Work) {
  const fields = await signIn(stage.subject, stage.program)
  const targets = [urlOf(stage, contentPath(bytes, 'forwarded'))]
  const { seconds } = stage.effort
  const plan = { ...work, targets, requests: 1e6, seconds, as: 'origin' as const }
  return fields === undefined ? plan : { ...plan, fields }
}

/** Signs a user in; the field lines of the browser's next requests. Undefined for a subject without sessions. */
export async function signIn(subject: SubjectName, { port }: Program): Promise<string | undefined> {
  if (subject !== 'authproxy' && subject !== 'mod_auth_mellon') return undefined
  const connections: Array<() => unknown> = []
  const browser = new WholeBrowser({ teardown: close => void connections.push(close) }, port)
  const { back } =
    subject === 'authproxy'
      ? await browser.signIn(identityProvider())
      : await signInWithMellon(browser)
  for (const close of connections) close()
  // A browser that is not signed in gets a redirect.
  if (back === undefined || isRedirect(back)) throw new Error('the login failed')
  const cookies = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  return `X-Forwarded-Proto: https\r\nX-Forwarded-Host: ${sp.domain}\r\nCookie: ${cookies}`
}

async function signInWithMellon(browser: WholeBrowser) {
  const acs = `${sp.baseUrl}/mellon/postResponse`
  const login = await browser.navigate(pathOf(hrefOf(await browser.navigate('/'))))
  const { id, relayState } = readAsked(login)
  const answer = identityProvider().respond({
    inResponseTo: id,
    response: { destination: acs },
    assertion: { recipient: acs, audience: `${sp.baseUrl}/mellon/metadata` },
  })
  const SAMLResponse = Buffer.from(answer).toString('base64')
  const taken = await browser.post(pathOf(acs), formOf({ SAMLResponse, RelayState: relayState }))
  return { back: await browser.navigate(pathOf(hrefOf(taken))) }
}

function isRedirect({ status }: Response): boolean {
  return status >= 300 && status < 400
}
