/**
 * The credentials for the bucket: from a file, a credential of systemd, or the variables that the programs of AWS read. A file has the form of
 * theirs: lines `aws_access_key_id = …`, `aws_secret_access_key = …` and, for credentials that are for a time, `aws_session_token = …`, in the
 * profile `[default]` or without one. No message quotes what stands there.
 */
import { privateSecret } from '../../../config/secret-place.ts'
import type { AwsCredentials } from './sigv4.ts'

type Environment = Readonly<Record<string, string | undefined>>
type BucketCredentials = AwsCredentials | { readonly problem: string }

/** Reads them anew. */
export function bucketCredentials(
  place: string | undefined,
  environment: Environment,
): BucketCredentials {
  if (place === undefined) return fromEnvironment(environment)
  const found = privateSecret(place, { service: 'cachesvc.service', environment })
  return 'problem' in found ? found : parseCredentials(found.text)
}

function fromEnvironment(environment: Environment): BucketCredentials {
  const members = new Map(
    ['aws_access_key_id', 'aws_secret_access_key', 'aws_session_token'].map(name => [
      name,
      environment[name.toUpperCase()] ?? '',
    ]),
  )
  const problem = 'is not set, and the environment lacks AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY'
  return credentialsOf(members) ?? { problem }
}

/** Reads the text of such a file. */
export function parseCredentials(text: string): BucketCredentials {
  const members = new Map<string, string>()
  let profile = 'default'
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(?:[#;].*)?$/.test(line)) continue
    const [, named] = /^\s*\[\s*([^\]]*?)\s*\]\s*$/.exec(line) ?? []
    if (named !== undefined) {
      profile = named
      continue
    }
    const [, name, value] = /^\s*([A-Za-z_]{1,64})\s*=\s*(.*?)\s*$/.exec(line) ?? []
    // The line may be half of a secret: it is not quoted.
    if (name === undefined || value === undefined) {
      return { problem: `has something else than NAME = VALUE on line ${index + 1}` }
    }
    if (profile === 'default') members.set(name.toLowerCase(), value)
  }
  const problem =
    'has no aws_access_key_id or no aws_secret_access_key in the profile [default], or one with blanks'
  return credentialsOf(members) ?? { problem }
}

function credentialsOf(members: ReadonlyMap<string, string>): AwsCredentials | undefined {
  const keyId = members.get('aws_access_key_id') ?? ''
  const secret = members.get('aws_secret_access_key') ?? ''
  const token = members.get('aws_session_token') ?? ''
  // They stand in a field of the request: the ID between commas and slashes, the token alone.
  if (
    !/^[\x21-\x2b\x2d\x2e\x30-\x7e]{1,256}$/.test(keyId) ||
    !/^[\x21-\x7e]{1,1024}$/.test(secret)
  ) {
    return undefined
  }
  if (!/^[\x21-\x7e]{0,8192}$/.test(token)) return undefined
  return token === '' ? { keyId, secret } : { keyId, secret, token }
}
