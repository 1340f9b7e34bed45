/**
 * The rules of access in the running service: the table of verdicts, by requests and by upgrades.
 */
import t from 'tap'
import { backendOf, handshake, logIn, start } from '../../fixtures/gateway/access-lab.ts'
import { accessTable, rulesOfSet, tablePeople } from '../../fixtures/gateway/access-table.ts'
import { domain, startGateway } from '../../fixtures/gateway/gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'
import { ManualClock } from '../../fixtures/time/manual-clock.ts'

const statuses: Readonly<Record<string, number>> = {
  allowed: 200,
  login: 401,
  'step-up': 401,
  refused: 403,
  ambiguous: 400,
}

for (const upgrade of [false, true]) {
  t.test(`72, 73: the table of verdicts, by ${upgrade ? 'upgrades' : 'requests'}`, async t => {
    const clock = new ManualClock(start)
    for (const set of ['A', 'B', 'C']) {
      const { target, seen } = await backendOf(t)
      const gateway = await startGateway(t, {
        target,
        clock,
        settings: { access: rulesOfSet(set) },
      })
      const cookies = new Map<string, string>()
      for (const who of Object.keys(tablePeople)) cookies.set(who, await logIn(gateway, who))
      for (const { who, method, path, verdict, ...row } of accessTable) {
        if (row.set !== set || (upgrade && method !== 'GET')) continue
        seen.length = 0
        const client = await RawClient.connect(t, gateway.port)
        const cookie = cookies.get(who)
        await client.request(method, path, {
          Host: domain,
          ...(cookie === undefined ? {} : { Cookie: cookie }),
          ...(upgrade ? handshake : {}),
        })
        const { status } = await client.head()
        const wanted = verdict === 'allowed' && upgrade ? 101 : statuses[verdict]
        const what = `${set} ${who} ${method} ${path}`
        t.equal(status, wanted, what)
        const reached = seen.map(({ url, user }) => [url, user])
        const user = cookie === undefined ? undefined : tablePeople[who]?.email
        t.same(
          reached,
          verdict === 'allowed' ? [[path, user]] : [],
          `${what}: what reached the backend`,
        )
        client.end()
      }
    }
  })
}
