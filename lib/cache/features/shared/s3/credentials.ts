/**
 * Reads the credentials for the bucket from a file, a credential of systemd, or the environment variables of the AWS programs. A file has the
 * format of those programs: lines `aws_access_key_id = …`, `aws_secret_access_key = …` and, for temporary credentials, `aws_session_token = …`, in
 * the profile `[default]` or without a profile. No message quotes the file.
 */
import { privateSecret } from '../../../../config/secret-place.ts'
import type { AwsCredentials } from './sigv4.ts'

type Environment = Readonly<Record<string, string | undefined>>
type BucketCredentials = AwsCredentials | { readonly problem: string }

/** Reads the credentials at `place`, or those of the environment when there is no place. */
export function bucketCredentials(
  place: string | undefined,
  environment: Environment,
): BucketCredentials {
  if (place === undefined) return fromEnvironment(environment)
  const found = privateSecret(place, { service: 'cachesvc.service', environment })
  return 'problem' in found ? found : parseCredentials(found.text)
}

function fromEnvironment(environment: Environment): BucketCredentials {
  const problem = 'is not set, and the environment lacks AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY'
  return credentialsOf(name => environment[name.toUpperCase()]) ?? { problem }
}

/** Reads the text of a credentials file. */
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
    // The message does not quote the line, because it may be a part of a secret.
    if (name === undefined || value === undefined) {
      return { problem: `has something else than NAME = VALUE on line ${index + 1}` }
    }
    if (profile === 'default') members.set(name.toLowerCase(), value)
  }
  const problem =
    'has no aws_access_key_id or no aws_secret_access_key in the profile [default], or one with blanks'
  return credentialsOf(name => members.get(name)) ?? { problem }
}

/** The credentials with these values by the names in a file; undefined when one is missing or has other characters. */
function credentialsOf(value: (name: string) => string | undefined): AwsCredentials | undefined {
  const keyId = value('aws_access_key_id') ?? ''
  const secret = value('aws_secret_access_key') ?? ''
  const token = value('aws_session_token') ?? ''
  // A field of the request has the key ID between commas and slashes, and another field has the token.
  if (
    !/^[\x21-\x2b\x2d\x2e\x30-\x7e]{1,256}$/.test(keyId) ||
    !/^[\x21-\x7e]{1,1024}$/.test(secret)
  ) {
    return undefined
  }
  if (!/^[\x21-\x7e]{0,8192}$/.test(token)) return undefined
  return token === '' ? { keyId, secret } : { keyId, secret, token }
}
