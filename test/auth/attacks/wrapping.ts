/**
 * Signature wrapping: the signature stays good while the content moves, as Somorovsky et al. number it ("On Breaking SAML", 2012).
 */
import {
  assertionPart,
  attackedLab,
  edit,
  evilId,
  good,
  part,
  signaturePart,
  wrapping,
} from '../../fixtures/saml/attack-toolkit.ts'

const { refuses } = await attackedLab()

refuses(
  '1: XSW3: a forged assertion before the signed one',
  'assertion_several',
  wrapping(({ good, evil }) => evil + good),
)
refuses(
  '1: XSW4: the signed assertion inside the forged one',
  'response_form',
  wrapping(({ good, evil }) => evil.replace('</saml:Assertion>', `${good}</saml:Assertion>`)),
)
refuses(
  '1, 17: XSW5: the forged assertion carries the signature, the signed one follows',
  'assertion_several',
  wrapping(
    ({ bare, evil, signature }) =>
      evil.replace('</saml:Issuer>', `</saml:Issuer>${signature}`) + bare,
  ),
)
refuses(
  '1: XSW6: the signed assertion inside the signature of the forged one',
  'response_form',
  wrapping(({ bare, evil, signature }) =>
    evil.replace(
      '</saml:Issuer>',
      `</saml:Issuer>${signature.replace('</ds:Signature>', `${bare}</ds:Signature>`)}`,
    ),
  ),
)
refuses(
  '1: XSW7: the forged assertion inside Extensions',
  'response_form',
  wrapping(({ good, evil }) => `<samlp:Extensions>${evil}</samlp:Extensions>${good}`),
)
refuses(
  '1, 16: XSW8: the signed assertion inside an Object of the signature',
  'response_form',
  wrapping(({ bare, evil, signature }) =>
    evil.replace(
      '</saml:Issuer>',
      `</saml:Issuer>${signature.replace('</ds:Signature>', `<ds:Object>${bare}</ds:Object></ds:Signature>`)}`,
    ),
  ),
)
for (const where of ['before', 'behind'] as const) {
  refuses(
    `1: XSW${where === 'before' ? 1 : 2}: a forged Response around the signed one, its signature ${where} it`,
    /response_form|signature_/,
    (lab, id) => {
      const text = lab.idp.respond({ inResponseTo: id, signs: 'response' })
      const signature = part(text, signaturePart)
      const bare = text.replace(signature, '')
      const evil = edit(
        bare,
        [/ID="_response\d+"/, `ID="${evilId}"`],
        ['alice@example.org', 'admin@example.org'],
      )
      const [moved, kept] = where === 'before' ? [signature + bare, ''] : [bare, signature]
      return edit(evil, ['</saml:Issuer>', `</saml:Issuer>${kept}${moved}`])
    },
  )
}
refuses(
  '1, 9: the forged assertion takes the ID of the signed one',
  /assertion_several/,
  (lab, id) => {
    const text = good(lab, id)
    const assertion = part(text, assertionPart)
    const evil = edit(assertion.replace(part(assertion, signaturePart), ''), [
      'alice@example.org',
      'admin@example.org',
    ])
    return text.replace(assertion, () => evil + assertion)
  },
)
