/**
 * Asks node-saml for the signed assertion in a response, as a second opinion; the only importer of it. node-saml finds and verifies
 * the assertion by its own rules.
 *
 * Times, audience and InResponseTo are checked by check-assertion.ts, since node-saml does not always check them.
 */

import { type Profile, SAML, type SamlConfig, ValidateInResponseTo } from '@node-saml/node-saml'
import { explainError } from '../../errors.ts'
import { canonicalText } from '../signature/canonical.ts'
import { signatureMethods } from '../signature/method.ts'
import { refuse, signedLimits } from './message.ts'
import { parseXml } from './scan.ts'
import { digestMethods, ns } from './vocabulary.ts'
import { childOf, type XmlElement } from './xml.ts'

/** Never read: identity is not taken from node-saml's flat profile. */
const noProfile: Profile = { issuer: '', nameID: '', nameIDFormat: '' }

class AssertionFinder extends SAML {
  found: string | undefined

  /** Called with the verified assertion; the rest of what node-saml would do with it is left out. */
  protected override async processValidlySignedAssertionAsync(xml: string) {
    this.found = xml
    return { profile: noProfile, loggedOut: false }
  }
}

/** Whether node-saml knows all methods of the signatures; it cannot judge others. */
export function canJudge(methods: readonly string[]): boolean {
  return methods.every(method => KNOWN.includes(method))
}

const KNOWN: readonly string[] = [
  ...[signatureMethods.rsaSha1, signatureMethods.rsaSha256, signatureMethods.rsaSha512],
  ...[digestMethods.sha1, digestMethods.sha256, digestMethods.sha512],
]

/** Refuses a response in which node-saml finds another signed assertion than we do: one of the two has been deceived. */
export async function checkSecondOpinion(
  response: string,
  assertion: XmlElement,
  certificates: readonly string[],
): Promise<void> {
  const other = await signedAssertionOf(response, certificates).catch(error =>
    refuse('second_opinion', `node-saml refuses it: ${explainError(error)}`),
  )
  const parsed = parseXml(other, signedLimits)
  if (!parsed.ok || saidBy(parsed.root) !== saidBy(assertion)) {
    refuse('second_opinion', 'node-saml finds another assertion in it')
  }
}

/** What an element says, wherever it stands, without its signature. */
function saidBy(element: XmlElement): string {
  const without = childOf(element, ns.signature, 'Signature')
  return canonicalText(element, element, { without })
}

/** The text of the one signed assertion in a response; throws when node-saml finds none. */
async function signedAssertionOf(
  response: string,
  certificates: readonly string[],
): Promise<string> {
  const unused = 'https://unused.invalid/'
  const options: SamlConfig = {
    callbackUrl: unused,
    issuer: unused,
    idpCert: [...certificates],
    audience: false,
    acceptedClockSkewMs: -1,
    validateInResponseTo: ValidateInResponseTo.never,
    // One valid signature over the assertion is enough; the others have been checked before.
    wantAuthnResponseSigned: false,
    wantAssertionsSigned: false,
  }
  const finder = new AssertionFinder(options)
  await finder.validatePostResponseAsync({ SAMLResponse: Buffer.from(response).toString('base64') })
  if (finder.found === undefined) throw new Error('node-saml found no signed assertion')
  return finder.found
}
