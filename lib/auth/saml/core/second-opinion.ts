/**
 * What node-saml says of a response that we have verified: the only importer of it. It finds and verifies the signed assertion
 * by its own rules; where it comes to another assertion than we do, one of us has been deceived.
 *
 * Times, audience and InResponseTo are ours to check (check-assertion.ts): node-saml checks some of them, some of the time.
 */
import { type Profile, SAML, type SamlConfig, ValidateInResponseTo } from '@node-saml/node-saml'

interface Processed {
  readonly profile: Profile
  readonly loggedOut: boolean
}

/** Nobody reads it: identity is never taken from node-saml's flat profile. */
const noProfile: Profile = { issuer: '', nameID: '', nameIDFormat: '' }

class AssertionFinder extends SAML {
  found: string | undefined

  /** Called with the verified assertion; the rest of what node-saml would do with it is left out. */
  protected override async processValidlySignedAssertionAsync(xml: string): Promise<Processed> {
    this.found = xml
    return { profile: noProfile, loggedOut: false }
  }
}

/** The text of the one signed assertion in a response; throws when node-saml finds none. */
export async function signedAssertionOf(
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
    // At least one valid signature over the assertion; the others have been checked before.
    wantAuthnResponseSigned: false,
    wantAssertionsSigned: false,
  }
  const finder = new AssertionFinder(options)
  await finder.validatePostResponseAsync({ SAMLResponse: Buffer.from(response).toString('base64') })
  if (finder.found === undefined) throw new Error('node-saml found no signed assertion')
  return finder.found
}
