/**
 * Odd and hostile responses, logout messages and metadata, through the gateway and through two other service providers: what both of the others accept we accept,
 * what both refuse we refuse, no hostile message gets in anywhere here. More of them, by hand: test/fixtures/sso/compare-by-hand.ts.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../lib/package.ts'
import { lacking } from '../fixtures/process/command.ts'
import {
  compareMetadata,
  comparison,
  issuer,
  lineOf,
  looser,
  looserTogether,
  messages,
  stricter,
} from '../fixtures/sso/compared.ts'
import { logoutMessages } from '../fixtures/sso/odd-logouts.ts'
import { oddMetadata } from '../fixtures/sso/odd-metadata.ts'
import { redirectLogouts } from '../fixtures/sso/odd-redirects.ts'
import { peerModules, peerPrograms } from '../fixtures/sso/peers.ts'

const absent = peerModules.filter(module => !existsSync(module))
const missing =
  absent.length > 0
    ? `SKIPPED: this machine has no ${absent.join(', no ')}`
    : lacking(...peerPrograms)

t.setTimeout(900_000)

t.test('beside mod_auth_mellon and the Shibboleth SP', { skip: missing }, async t => {
  const { compareAll, compareLogout, compareRedirect } = await comparison(t)

  t.test('responses', async t => {
    let accepted = 0
    let hostile = 0
    for await (const compared of compareAll(messages(100, 20_261_126))) {
      t.equal(compared.fault, undefined, lineOf(compared))
      if (compared.ours.accepted) accepted += 1
      if (compared.message.hostile) hostile += 1
    }
    t.ok(accepted > 80, `${accepted} were accepted`)
    t.ok(hostile > 20, `${hostile} were hostile`)
  })

  t.test('logout messages', async t => {
    for (const message of logoutMessages()) {
      const compared = await compareLogout(message)
      t.equal(compared.fault, undefined, lineOf(compared))
    }
  })

  t.test('logout messages by redirect', async t => {
    for (const message of redirectLogouts()) {
      const compared = await compareRedirect(message)
      t.equal(compared.fault, undefined, lineOf(compared))
    }
  })

  t.test('metadata', async t => {
    for (const document of oddMetadata(issuer)) {
      // Daemons of its own, which end with it.
      await t.test(document.name, async t => {
        const compared = await compareMetadata(t, document)
        t.equal(compared.fault, undefined, lineOf(compared))
      })
    }
  })
})

t.test('the manual has a row for each difference', async t => {
  const manual = await readFile(join(packageRoot(), 'bench/compared-saml.md'), 'utf8')
  const rows = new Map(
    [...manual.matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)].map(([, what = '', why = '']) => [
      what.trim(),
      why.trim(),
    ]),
  )
  const together = [...looserTogether].map(
    ([what, { and, why }]) => [`${what}; ${and}…`, why] as const,
  )
  for (const [what, why] of [...stricter, ...looser, ...together])
    t.equal(rows.get(what), why, what)
})
