import { createHash, X509Certificate } from 'node:crypto'
import t from 'tap'
import { readIdpMetadata } from '../../../lib/saml/metadata/idp-metadata.ts'
import { rsaPair } from '../../fixtures/saml/keys.ts'
import {
  aggregate,
  base64Of,
  entity,
  keyDescriptor,
  likeAdfs,
  likeKeycloak,
  likeShibboleth,
  plain,
  service,
} from '../../fixtures/saml/metadata-documents.ts'

function verdictOn(text: string, entityId?: string) {
  const rules = { entityId, certificates: undefined, allowSha1: false }
  return readIdpMetadata(Buffer.from(text), rules)
}

function read(text: string, entityId?: string) {
  const verdict = verdictOn(text, entityId)
  if (!verdict.ok) throw new Error(verdict.problem)
  return verdict.idp
}

function refused(text: string, entityId?: string) {
  const verdict = verdictOn(text, entityId)
  if (verdict.ok) return undefined
  return verdict.because.replace(/^metadata_/, '').replace(/^xml_.*/, 'xml')
}

function fingerprints(...names: readonly string[]) {
  return names.map(name => {
    const { raw } = new X509Certificate(rsaPair(name).certificate)
    return createHash('sha256').update(raw).digest('hex')
  })
}

const sso = service('SingleSignOnService', 'HTTP-Redirect', 'https://idp.example.org/sso')
const key = keyDescriptor('signing', base64Of('idp'))

t.test('the least an IdP says is enough', async t => {
  const idp = read(plain())
  t.match(idp, {
    entityId: 'https://idp.example.org/plain',
    singleSignOn: [
      { binding: 'redirect', location: 'https://idp.example.org/sso', responseLocation: undefined },
    ],
    singleLogout: [],
    wantAuthnRequestsSigned: false,
    validUntil: undefined,
    cacheDuration: undefined,
    warnings: [],
  })
  t.strictSame(
    idp.keys.map(each => each.fingerprint),
    fingerprints('idp'),
  )
  t.equal(idp.keys[0]?.ends, Date.parse('2049-01-01T00:00:00Z'))
})

t.test(
  'AD FS: roles of WS-Federation do not count, both signing keys do, Redirect is preferred',
  async t => {
    const idp = read(likeAdfs())
    t.strictSame(
      idp.keys.map(each => each.fingerprint),
      fingerprints('idp', 'next'),
    )
    t.strictSame(
      idp.singleSignOn.map(each => each.binding),
      ['redirect', 'post'],
    )
    t.strictSame(
      idp.singleLogout.map(each => each.binding),
      ['redirect', 'post'],
    )
  },
)

t.test(
  'Shibboleth: comments, a key without use, wrapped base64, bindings we do not speak',
  async t => {
    const idp = read(likeShibboleth())
    t.strictSame(
      idp.keys.map(each => each.fingerprint),
      fingerprints('idp'),
    )
    t.strictSame(
      idp.singleSignOn.map(each => each.location),
      ['https://idp.example.org/sso', 'https://idp.example.org/post'],
    )
    t.strictSame(idp.singleLogout, [])
  },
)

t.test(
  'Keycloak: two keys at once, signed requests wanted, answers to logout elsewhere',
  async t => {
    const idp = read(likeKeycloak())
    t.strictSame(
      idp.keys.map(each => each.fingerprint),
      fingerprints('next', 'idp'),
    )
    t.equal(idp.wantAuthnRequestsSigned, true)
    t.equal(idp.singleLogout[0]?.responseLocation, 'https://idp.example.org/out/done')
  },
)

t.test(
  'an aggregate needs to be told which IdP; the dates of the groups around it hold for it',
  async t => {
    t.match(verdictOn(aggregate()), {
      ok: false,
      because: 'metadata_several-idps',
      problem: /2 IdPs.*one\.example\.org.*two\.example\.org/,
    })
    t.equal(
      read(aggregate(), 'https://one.example.org').validUntil,
      Date.parse('2031-01-01T00:00:00Z'),
    )
    const two = read(aggregate(), 'https://two.example.org')
    t.match(two, { validUntil: Date.parse('2030-01-01T00:00:00Z') })
    t.equal(refused(aggregate(), 'https://three.example.org'), 'unknown-entity')
    t.equal(
      refused(aggregate(), 'https://sp.example.org'),
      'unknown-entity',
      'a service provider is no IdP',
    )
    t.equal(
      refused(aggregate(), 'https://old.example.org'),
      'unknown-entity',
      'SAML 1.1 is not spoken',
    )
    const twice = aggregate().replace('https://two.example.org', 'https://one.example.org')
    t.equal(refused(twice, 'https://one.example.org'), 'several-idps', 'two with one name')
  },
)

t.test('certificates survive what people do to base64', async t => {
  const base64 = base64Of('idp')
  const { certificate } = rsaPair('idp')
  const spellings = [
    certificate,
    certificate.replaceAll('\n', '&#13;\n'),
    `\n\t ${base64.replace(/.{20}/g, '$& \t')}  `,
    certificate.replace(/-----\n/, '----- ').replace(/\n/g, ' '),
  ]
  for (const spelling of spellings) {
    const idp = read(entity('https://idp.example.org', keyDescriptor('signing', spelling) + sso))
    t.strictSame(
      idp.keys.map(each => each.fingerprint),
      fingerprints('idp'),
    )
  }
})

const noCertificate = keyDescriptor('signing', '').replace(/<(\w+:)?X509Data>.*X509Data>/s, '')

/** The certificate with the key algorithm that no OpenSSL knows, as those of a later one are to an older. */
function ofUnknownKind(der: Buffer): string {
  const [rsa, unknown] = ['06092a864886f70d010101', '0609608648016503047f7f'].map(oid =>
    Buffer.from(oid, 'hex'),
  )
  if (rsa === undefined || unknown === undefined) throw new Error('two object identifiers')
  const changed = Buffer.from(der)
  unknown.copy(changed, der.indexOf(rsa))
  return changed.toString('base64')
}

t.test('keys of no use are named and the others taken', async t => {
  const der = Buffer.from(base64Of('idp'), 'base64')
  const long = Buffer.concat([der, Buffer.alloc(40)]).toString('base64')
  const useless = ['not base64!', der.subarray(0, 200).toString('base64'), long]
  for (const text of useless) {
    const descriptor = keyDescriptor('signing', text)
    t.equal(refused(entity('https://idp.example.org', descriptor + sso)), 'no-key')
    const idp = read(entity('https://idp.example.org', descriptor + key + sso))
    t.equal(idp.keys.length, 1)
    t.equal(idp.warnings.length, 1)
  }
  const foreign = key.replaceAll('http://www.w3.org/2000/09/xmldsig#', 'urn:other')
  t.equal(
    refused(entity('https://idp.example.org', foreign + sso)),
    'no-key',
    'KeyInfo of another namespace',
  )
  const encryption = keyDescriptor('encryption', base64Of('idp'))
  t.equal(
    refused(entity('https://idp.example.org', encryption + sso)),
    'no-key',
    'a key for encryption only',
  )
})

t.test('a certificate with a key of an unknown kind is told of', async t => {
  const unknown = ofUnknownKind(Buffer.from(base64Of('idp'), 'base64'))
  const idp = read(entity('https://i', keyDescriptor('signing', unknown) + key + sso))
  t.equal(idp.keys.length, 1, 'the others are taken')
  t.strictSame(idp.warnings, ['a certificate has a key of an unknown kind'])
})

t.test('a key of 512 bits signs nothing', async t => {
  const tiny = rsaPair('tiny', 512).certificate.replace(/-----[^-]+-----|\s/g, '')
  const weak = entity('https://i', keyDescriptor('signing', tiny) + sso)
  t.match(verdictOn(weak), { ok: false, because: 'metadata_no-key', problem: /512 bits/ })
})

t.test('what is odd and does no harm is told as a warning', async t => {
  const idp = read(entity('https://i', noCertificate + key + sso))
  t.match(idp.warnings, [/a KeyInfo has no X509Certificate/])
  t.equal(idp.keys.length, 1)
})

t.test('42: what makes a document useless has a reason of its own', async t => {
  const cases: ReadonlyArray<readonly [string, string]> = [
    ['', 'xml'],
    [plain().slice(0, -5), 'xml'],
    [`<!DOCTYPE x>${plain()}`, 'xml'],
    [plain() + plain(), 'xml'],
    [` <?xml version="1.0"?>${plain()}`, 'xml'],
    ['<html/>', 'form'],
    ['<!DOCTYPE html>\n<html lang="en"><head>', 'web-page'],
    ['\ufeff\n<!-- saved from url=(0030)https://idp.example.org/ -->\n<HTML>', 'web-page'],
    ['<html xmlns="http://www.w3.org/1999/xhtml"><body/></html>', 'web-page'],
    [plain().replaceAll('urn:oasis:names:tc:SAML:2.0:metadata', 'urn:other'), 'form'],
    [plain().replace(/ entityID="[^"]*"/, ''), 'no-entity-id'],
    [plain().replaceAll('IDPSSODescriptor', 'SPSSODescriptor'), 'no-idp'],
    [entity('https://i', key), 'no-sign-on'],
    [
      entity('https://i', key + service('SingleSignOnService', 'SOAP', 'https://i/soap')),
      'no-sign-on',
    ],
    [
      entity(
        'https://i',
        key + service('SingleSignOnService', 'HTTP-Redirect', 'javascript:alert(1)'),
      ),
      'no-sign-on',
    ],
    [
      entity('https://i', key + service('SingleSignOnService', 'HTTP-Redirect', '/sso')),
      'no-sign-on',
    ],
    [entity('https://i', key + sso, { attributes: ' validUntil="soon"' }), 'dates'],
    [entity('https://i', `<x:KeyDescriptor xmlns:x="urn:x"/>${sso}`), 'no-key'],
    [entity('https://i', noCertificate + sso), 'no-key'],
  ]
  for (const [text, because] of cases)
    t.equal(refused(text), because, `${because}: ${text.slice(0, 60)}`)
})

t.test('locations without TLS are taken, with a warning', async t => {
  const idp = read(
    entity(
      'https://i',
      key + service('SingleSignOnService', 'HTTP-POST', 'http://localhost:8080/sso'),
    ),
  )
  t.match(idp.warnings, [/without TLS/])
})

t.test('metadata that Windows saved in UTF-16 is read', t => {
  const declared = `<?xml version="1.0" encoding="utf-16"?>\r\n<!-- ü -->${plain()}`
  const little = (text: string) => Buffer.from(`\ufeff${text}`, 'utf16le')
  const big = (text: string) => little(text).swap16()
  const rules = { entityId: undefined, certificates: undefined, allowSha1: false }
  for (const text of [declared, plain(), declared.replace('utf-16', 'UTF-16')]) {
    t.match(readIdpMetadata(little(text), rules), { ok: true })
    t.match(readIdpMetadata(big(text), rules), { ok: true })
  }
  for (const [bytes, because] of [
    [little(declared).subarray(2), 'xml_not-utf8'],
    [Buffer.concat([little(declared), Buffer.from([0])]), 'xml_not-utf8'],
    [Buffer.concat([little(plain()), Buffer.from([0, 0xd8])]), 'xml_not-utf8'],
    [Buffer.from(declared), 'xml_declaration'],
    [little('<!DOCTYPE html><html>'), 'metadata_web-page'],
  ] as const) {
    t.match(readIdpMetadata(bytes, rules), { ok: false, because })
  }
  t.end()
})
