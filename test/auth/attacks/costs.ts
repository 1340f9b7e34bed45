/**
 * What strangers can make the gateway compute: a document that has been expensive is refused at the cost of some genuine logins,
 * and as a logout message for less than one. Compared within one run, so that the speed of the machine does not count.
 */
import t from 'tap'
import { isAmbiguous } from '../../../lib/auth/access/passthrough.ts'
import { readLogout } from '../../../lib/saml/binding/logout-message.ts'
import { verifyResponse } from '../../../lib/saml/response/verify-response.ts'
import { costlyDocuments, costlySurroundings } from '../../fixtures/saml/costly-documents.ts'
import { ScriptedIdp } from '../../fixtures/saml/idp.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'

const idp = new ScriptedIdp('entra', { now: () => 0 })
const good = idp.respond({ inResponseTo: '_a' })
const rules = {
  certificates: [idp.key.certificate],
  decryptionKeys: [rsaPair('sp').privateKey],
  allowSha1: false,
  signedOutside: false,
}

const documents = costlyDocuments(good)

/**
 * CPU milliseconds of each piece of work: the least of several runs, taken in turns, so that what else the machine does counts for little
 * and for all alike, and the program is compiled meanwhile.
 */
async function cpuOf<Name extends string>(
  works: Readonly<Record<Name, () => unknown>>,
  runs = 40,
): Promise<Record<Name, number>> {
  const names = Object.keys(works) as Name[]
  const least = Object.fromEntries(names.map(name => [name, Number.POSITIVE_INFINITY]))
  for (let run = 0; run < runs; run += 1) {
    for (const name of names) {
      const before = process.cpuUsage()
      await works[name]()
      const { user, system } = process.cpuUsage(before)
      least[name] = Math.min(least[name] ?? Number.POSITIVE_INFINITY, (user + system) / 1000)
    }
  }
  return least as Record<Name, number>
}

const genuineLogin = () => verifyResponse(Buffer.from(good), rules, () => true)

/** Genuine logins that a document may cost. The dearest costs seven once all is compiled; faults have cost forty and more. */
const most = 20

for (const [what, text] of Object.entries(documents)) {
  t.test(`20: ${what} cost a login little, and a logout nothing`, async t => {
    const bytes = Buffer.from(text)
    t.match(await verifyResponse(bytes, rules, () => true), { ok: false })
    const { genuine, login, logout } = await cpuOf({
      genuine: genuineLogin,
      login: () => verifyResponse(bytes, rules, () => true),
      logout: () => readLogout(bytes, rules),
    })
    t.comment(
      `${Math.round(bytes.length / 1024)} KB: ${login.toFixed(1)} ms, ${logout.toFixed(1)} ms`,
    )
    t.ok(login < most * genuine, `${login} ms, a genuine login ${genuine} ms`)
    t.ok(logout < genuine, `${logout} ms, a genuine login ${genuine} ms`)
  })
}

for (const [what, text] of Object.entries(costlySurroundings(good))) {
  t.test(`20: ${what} around a signed assertion cost little`, async t => {
    const bytes = Buffer.from(text)
    t.match(await verifyResponse(bytes, rules, () => true), { ok: true })
    const { genuine, login } = await cpuOf({
      genuine: genuineLogin,
      login: () => verifyResponse(bytes, rules, () => true),
    })
    t.ok(login < most * genuine, `${login} ms, a genuine login ${genuine} ms`)
  })
}

t.test(
  '47, 68: whether a path passes without a login is decided at the cost of reading it',
  async t => {
    const length = 20_000
    const paths = {
      dots: `${'.'.repeat(length)}x`,
      'dots and spaces': `${'.%20'.repeat(length)}x`,
      'accents above and below in turns': `a${'%cc%81%cc%96'.repeat(length)}`,
      'accents above, then below': `a${'%cc%81'.repeat(length)}${'%cc%96'.repeat(length)}`,
      'as many accents as are folded': `a${'%cc%81'.repeat(1000)}${'%cc%96'.repeat(1000)}`,
    }
    for (const [what, path] of Object.entries(paths)) {
      const { letters, found } = await cpuOf(
        {
          letters: () => isAmbiguous(`/public/${'a'.repeat(length)}`),
          found: () => isAmbiguous(`/public/${path}`),
        },
        4,
      )
      t.ok(found < 50 * letters + 10, `${what}: ${found} ms, letters ${letters} ms`)
    }
  },
)
