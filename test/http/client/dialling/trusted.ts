/** What TLS connections trust is made once for all who trust the same. */
import t from 'tap'
import { contextTrusting } from '../../../../lib/http/client/dialling/dialler.ts'
import { makeAuthority } from '../../../fixtures/certificates/certificate.ts'

t.test('the same for the same certificates, and for no others', async t => {
  const [one, other] = [makeAuthority().cert, makeAuthority().cert]
  const first = contextTrusting([one])
  t.equal(contextTrusting([one]), first)
  t.not(contextTrusting([other]), first)
  const both = contextTrusting([one, other])
  t.not(both, first)
  t.equal(contextTrusting([one, other]), both)
  t.not(contextTrusting([one]), both)
})
