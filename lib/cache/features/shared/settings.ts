/**
 * The settings of the bucket that several nodes share.
 */
import {
  mismatch,
  type ReadResult,
  type Remark,
  readFailure,
  readResult,
} from '../../../config/reading.ts'
import { secretPlace } from '../../../config/secret-place.ts'
import { duration, oneOf } from '../../../config/setting-kinds.ts'
import {
  group,
  type Kind,
  kind,
  optionalSetting,
  setting,
  type ValuesOf,
} from '../../../config/settings.ts'
import { isIpLiteral, parseUri, type TargetUri } from '../../../http/message/target.ts'

/** The URL of a bucket, which has neither credentials nor a query. */
const bucketUrl: Kind<TargetUri> = kind({ name: 'URL', json: { type: 'string' } }, found =>
  readPlainUrl(found, 'the URL of a bucket such as https://s3.example.org/apt-cache'),
)

/** Reads a URL without credentials and query. No message quotes it, because it may contain a password by mistake. */
function readPlainUrl(found: unknown, what: string): ReadResult<TargetUri> {
  const uri = typeof found === 'string' ? parseUri(found) : { problem: 'It is not text.' }
  if ('problem' in uri) return readFailure(`${uri.problem} Expected ${what}`)
  if (uri.userinfo !== undefined) {
    return readFailure(`found credentials, which do not belong there; expected ${what}`)
  }
  return uri.query === undefined ? readResult(uri) : readFailure(`found a query, expected ${what}`)
}

/** The region of a bucket, as it stands in signatures. */
const region: Kind<string> = kind({ name: 'region', json: { type: 'string' } }, found =>
  typeof found === 'string' && /^[A-Za-z0-9-]{1,64}$/.test(found)
    ? readResult(found)
    : mismatch(found, 'a region such as eu-central-1'),
)

const sharedStore = group(
  'A bucket that several nodes share: what one has fetched the others need not fetch, and all give the same generation of a suite ([several machines](several-machines.md)). Files stay on the local disk, and hits come from there. When the bucket does not answer, each node goes on by itself.',
  {
    url: optionalSetting(
      bucketUrl,
      'none: nothing is shared',
      'shared_store:\n  url: https://s3.example.org/apt-cache\n  region: eu-central-1\n  credentials: /etc/cachesvc/s3.credentials',
    )
      .needsRestart()
      .says(
        'The bucket, in an object store with the protocol of Amazon S3: `https://s3.example.org/BUCKET`, and behind it a prefix of the names, if others use the bucket too. It is reached directly, past `parent_proxy`, and may have any address. The CAs of `https.origin_ca` and of the system are trusted.',
      ),
    style: setting(oneOf('path', 'host'), 'path')
      .needsRestart()
      .needs('shared_store.url')
      .says(
        'Where the name of the bucket is in `url`: first in the path, or before the first dot of the host (`https://BUCKET.s3.example.org/`).',
      ),
    region: setting(region, 'us-east-1')
      .needsRestart()
      .needs('shared_store.url')
      .says(
        'Region that signatures name. Most engines other than Amazon’s take the one they were set up with, often `us-east-1`.',
      ),
    credentials: optionalSetting(
      secretPlace,
      'the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`',
    )
      .needsRestart()
      .needs('shared_store.url')
      .says(
        'File with the credentials in the form of Amazon’s programs: the lines `aws_access_key_id = ID` and `aws_secret_access_key = SECRET`; or `credential:NAME` for a credential of systemd (`LoadCredential=`). Only the service may be able to read it. The credentials need `s3:GetObject`, `s3:PutObject` and `s3:DeleteObject` for the objects, and `s3:ListBucket` for the bucket. A reload reads the file again.',
      ),
    expire: setting(duration('0s', '3650d'), '30d')
      .needs('shared_store.url')
      .says(
        'After which time the lifecycle rule of the bucket removes objects. What clients of a node use is copied onto itself when half of it is over, so that it stays. 0 is for a bucket without such a rule. A reload changes it.',
      ),
  },
)

export const sharedStoreSettings = {
  root: { shared_store: sharedStore },
  check: bucketProblems,
}

/** Problems with the URL of the bucket, which needs a host and a name. */
function bucketProblems(
  _found: unknown,
  { sharedStore: { url, style } }: { readonly sharedStore: ValuesOf<typeof sharedStore> },
): Remark[] {
  if (url === undefined) return []
  const problem = (text: string): Remark[] => [{ path: ['shared_store', 'url'], at: 'value', text }]
  if (style === 'path' && url.path === '/') {
    return problem('names no bucket; write it behind the host, or set style: host')
  }
  return style === 'host' && (isIpLiteral(url.host) || !url.host.includes('.'))
    ? problem('has no bucket before the first dot of its host; set style: path')
    : []
}
