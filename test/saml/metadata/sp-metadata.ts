/**
 * Our own metadata: its dates and its signature, which another program checks.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { SamlConfig } from '../../../lib/auth/config/config.ts'
import { ns } from '../../../lib/saml/xml/vocabulary.ts'
import { attempt, lacking } from '../../fixtures/process/command.ts'
import { htmlOf } from '../../fixtures/saml/browser.ts'
import { keyPair, SamlLab, start } from '../../fixtures/saml/lab.ts'

const hour = 3_600_000
const day = 24 * hour

async function lab(t: Test, config: Partial<SamlConfig>) {
  const lab = await SamlLab.open(t, 'entra', { config })
  return { lab, fetch: async () => htmlOf(await lab.browser.get('/saml/metadata.xml')) }
}

t.test('it has dates where they are wished for, and no others', async t => {
  const { lab: room, fetch } = await lab(t, {})
  t.notMatch(await fetch(), /validUntil|cacheDuration|Signature/)
  const id = (xml: string) => / ID="(_[0-9a-f]{40})"/.exec(xml)?.[1]
  const before = await fetch()

  room.config = { ...room.config, metadataValidity: 7 * day, metadataCacheDuration: 6 * hour }
  const dated = await fetch()
  t.match(dated, ' validUntil="2026-11-27T12:00:00Z" cacheDuration="PT21600S">')
  t.not(id(dated), id(before), 'another document has another ID')
  room.clock.advance(1)
  const later = await fetch()
  t.match(later, ' validUntil="2026-11-27T13:00:00Z"', 'to the end of the hour')
  room.clock.advance(hour - 1)
  t.equal(await fetch(), later, 'and so the same for an hour')
  room.clock.advance(1)
  t.match(await fetch(), ' validUntil="2026-11-27T14:00:00Z"')

  room.config = { ...room.config, metadataValidity: undefined }
  t.notMatch(await fetch(), /validUntil/)
})

t.test(
  'xmlsec1 takes its signature, of the key that signs',
  { skip: lacking('xmlsec1') },
  async t => {
    const { lab: room, fetch } = await lab(t, {
      ...{ signMetadata: true, metadataValidity: day, metadataCacheDuration: hour },
    })
    const older = keyPair('older')
    const newest = { ...keyPair('sp'), created: start, signs: start + 2 * hour }
    room.pairs = [newest, older]
    const directory = t.testdir()
    const verdict = async (xml: string, by: typeof older) => {
      const [file, pem] = [join(directory, 'sp.xml'), join(directory, 'by.pem')]
      await Promise.all([writeFile(file, xml), writeFile(pem, by.certificate)])
      const { code } = await attempt('xmlsec1', [
        ...['--verify', '--enabled-reference-uris', 'same-doc', '--pubkey-cert-pem', pem],
        ...['--id-attr:ID', `${ns.metadata}:EntityDescriptor`, file],
      ])
      return code
    }
    const signed = await fetch()
    t.match(signed, /<md:EntityDescriptor[^>]*><ds:Signature /, 'where the schema has it')
    t.equal(await verdict(signed, older), 0)
    t.not(await verdict(signed, newest), 0)
    t.not(await verdict(signed.replace('/saml/acs', '/saml/evil'), older), 0)
    t.not(await verdict(signed.replace('cacheDuration="PT3600S"', ''), older), 0)
    t.equal(await fetch(), signed)

    room.clock.advance(2 * hour)
    const again = await fetch()
    t.equal(await verdict(again, newest), 0, 'the new key signs when it signs requests')
    t.not(await verdict(again, older), 0)

    room.config = { ...room.config, signMetadata: false }
    t.notMatch(await fetch(), /Signature/)
  },
)
