/**
 * Which request may carry credentials of the proxy: a table of files and places.
 */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseAuthConf, readCredentials } from '../../../lib/cache/fetch/origin-credentials.ts'
import { parseUri, type TargetUri } from '../../../lib/http/message/target.ts'
import { config } from '../../fixtures/cache/cache-config.ts'

function uri(text: string): TargetUri {
  const found = parseUri(text)
  if ('problem' in found) throw new Error(found.problem)
  return found
}

t.test('a line is for its scheme, host, port and whole segments of its path', t => {
  const directory = t.testdir({
    'a.auth': `
machine archive.example.org/paid login one password 1
machine http://archive.example.org/paid/plain
  login two
  password 2
machine archive.example.org:8443 login three password 3
machine ARCHIVE.example.org login four password #4
`,
  })
  chmodSync(join(directory, 'a.auth'), 0o400)
  const { archives } = config(
    JSON.stringify({
      archives: [
        {
          origins: ['archive.example.org', 'archive.example.org:8443'],
          clients: ['192.0.2.0/24'],
          credentials: 'credential:a.auth',
        },
        { origins: ['other.example.org'] },
      ],
    }),
  )
  const credentials = readCredentials(archives, { CREDENTIALS_DIRECTORY: directory })
  t.match(credentials.warnings, [/http:\/\/archive\.example\.org/])
  t.notMatch(credentials.warnings.join(), /login|Basic/)
  const sent = (wanted: string, place = wanted) => {
    const value = credentials.of(uri(wanted))?.at(uri(place))
    return value && Buffer.from(value.slice('Basic '.length), 'base64').toString()
  }
  const table = [
    ['https://archive.example.org/paid/x', 'one:1'],
    ['https://archive.example.org/paid', 'one:1'],
    ['https://archive.example.org/paidx', 'four:#4'],
    ['https://archive.example.org/x', 'four:#4'],
    ['https://archive.example.org:8443/paid/x', 'three:3'],
    ['http://archive.example.org/paid/plain/x', 'two:2'],
    ['http://archive.example.org/paid/x', undefined],
    ['https://archive.example.org:444/paid/x', undefined],
    ['https://other.example.org/paid/x', undefined],
    ['https://sub.archive.example.org/paid/x', undefined],
  ] as const
  for (const [wanted, is] of table) t.equal(sent(wanted), is, wanted)
  t.equal(
    sent('https://other.example.org/x', 'https://archive.example.org/x'),
    undefined,
    'for a file of another archive',
  )
  t.equal(sent('https://archive.example.org/x', 'https://other.example.org/x'), undefined)
  t.notMatch(JSON.stringify([archives, credentials]), /login|Basic/, 'JSON of them has no secret')
  t.throws(() => readCredentials(archives, { CREDENTIALS_DIRECTORY: join(directory, 'no') }), {
    message: /archives\[0\]\.credentials/,
  })
  t.end()
})

t.test('what is wrong with a file is told without quoting it', t => {
  for (const text of [
    'machine',
    'machine h login',
    'machine h login secret',
    'machine h login secret login secret password secret',
    'machine h:secret login secret password secret',
    'machine h login secret password sec ret',
    'secret',
  ]) {
    const found = parseAuthConf(text)
    t.ok('problem' in found, text)
    t.notMatch(found, { problem: /secret|\bret\b/ })
  }
  t.end()
})
