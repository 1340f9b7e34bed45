/**
 * Signatures, against what AWS has published: the examples of the S3 API reference ("Examples: Signature Calculations"), and of the test
 * suite for Signature Version 4 what concerns paths and fields as we send them.
 */
import t from 'tap'
import {
  amzDate,
  authorization,
  canonicalRequest,
  digestOfNothing,
  escapedPath,
  type UnsignedRequest,
} from '../../../../lib/cache/features/shared/s3/sigv4.ts'

const s3 = {
  region: 'us-east-1',
  credentials: {
    keyId: 'AKIAIOSFODNN7EXAMPLE',
    secret: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  },
  moment: Date.UTC(2013, 4, 24),
}
const host = ['Host', 'examplebucket.s3.amazonaws.com'] as const
const date = ['x-amz-date', '20130524T000000Z'] as const
const nothing = ['x-amz-content-sha256', digestOfNothing] as const
const welcome = '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072'

const suite = {
  region: 'us-east-1',
  service: 'service',
  credentials: { keyId: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' },
  moment: Date.UTC(2015, 7, 30, 12, 36),
}
const suiteFields = [
  ['Host', 'example.amazonaws.com'],
  ['X-Amz-Date', '20150830T123600Z'],
] as const

t.test('requests of the S3 API reference have the signatures that stand there', async t => {
  const rows: ReadonlyArray<readonly [UnsignedRequest, string]> = [
    [
      {
        method: 'GET',
        path: '/test.txt',
        fields: [host, ['Range', 'bytes=0-9'], nothing, date],
        digest: digestOfNothing,
      },
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    ],
    [
      {
        method: 'PUT',
        path: escapedPath('/test$file.text'),
        fields: [
          host,
          ['Date', 'Fri, 24 May 2013 00:00:00 GMT'],
          date,
          ['x-amz-storage-class', 'REDUCED_REDUNDANCY'],
          ['x-amz-content-sha256', welcome],
        ],
        digest: welcome,
      },
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    ],
  ]
  for (const [request, signature] of rows) {
    const { text } = canonicalRequest(request)
    t.ok(authorization(request, s3).endsWith(`, Signature=${signature}`), text)
  }
})

t.test('requests of the test suite have its signatures', async t => {
  const of = (more: Partial<UnsignedRequest>): UnsignedRequest => ({
    ...{ method: 'GET', path: '/', fields: suiteFields, digest: digestOfNothing },
    ...more,
  })
  const rows: ReadonlyArray<readonly [string, UnsignedRequest, string]> = [
    ['get-vanilla', of({}), '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'],
    [
      'get-header-key-duplicate',
      of({
        fields: [
          ...suiteFields,
          ['My-Header1', 'value2'],
          ['My-Header1', 'value2'],
          ['My-Header1', 'value1'],
        ],
      }),
      'c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea',
    ],
    [
      'get-header-value-trim',
      of({ fields: [...suiteFields, ['My-Header1', ' value1'], ['My-Header2', ' "a   b   c"']] }),
      'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
    ],
    [
      'get-unreserved',
      of({
        path: escapedPath('/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'),
      }),
      '07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f',
    ],
    [
      'get-utf8',
      of({ path: escapedPath('/ሴ') }),
      '8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85',
    ],
    [
      'post-vanilla',
      of({ method: 'POST' }),
      '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
    ],
  ]
  for (const [name, request, signature] of rows) {
    t.ok(authorization(request, suite).endsWith(`, Signature=${signature}`), name)
  }
})

t.test('another day, region or secret makes another key', async t => {
  const request: UnsignedRequest = {
    method: 'GET',
    path: '/',
    fields: [host],
    digest: digestOfNothing,
  }
  const signatures = [
    s3,
    { ...s3, moment: s3.moment + 86_400_000 },
    { ...s3, region: 'eu-west-1' },
    { ...s3, credentials: { ...s3.credentials, secret: 'other' } },
    s3,
  ].map(scope => authorization(request, scope))
  t.equal(new Set(signatures).size, 4)
  t.equal(signatures[0], signatures[4])
})

t.test('names are escaped as S3 has it, and dates are in its form', async t => {
  t.equal(
    escapedPath("/a b/c+d/e$f/(g)*!'/ü~-._"),
    '/a%20b/c%2Bd/e%24f/%28g%29%2A%21%27/%C3%BC~-._',
  )
  t.equal(amzDate(Date.UTC(2013, 4, 24, 1, 2, 3, 456)), '20130524T010203Z')
})
