import t from 'tap'
import {
  type RepositoryReport,
  reportText,
  type VerificationReport,
} from '../../../../lib/cache/features/verify/report.ts'

const empty: VerificationReport = {
  version: 1,
  started: '2025-01-01T12:00:00.000Z',
  finished: '2025-01-01T12:00:02.310Z',
  files: 0,
  contents: 0,
  bytes: 0,
  repositories: [],
  confirmed: 0,
  wrong: [],
  unchecked: { 'no-index': 0, weak: 0, unreadable: 0, changed: 0 },
  contradictions: [],
  unread: [],
}
const stable: RepositoryReport = {
  release: 'http://archive.example.org/dists/stable/InRelease',
  suite: 'stable',
  date: undefined,
  signature: { is: 'good', by: 'abcdef' },
  refused: undefined,
  indexes: 1,
  indexesRight: 1,
}

t.test('figures for people: sizes with units, one file and several', t => {
  const report: VerificationReport = {
    ...empty,
    files: 1,
    bytes: 9_467_876,
    repositories: [stable],
    unchecked: { ...empty.unchecked, 'no-index': 1 },
  }
  const text = reportText(report, () => 'removed')
  t.match(
    text,
    /InRelease: signed by ABCDEF\n1 file, 9\.03 MiB, 1 suite, in 2s310ms\n0 confirmed by an index or by name, 0 wrong\n/,
  )
  t.match(text, '\n1 whole, but named by no stored index (Release files never are)\n')
  t.match(
    reportText({ ...report, files: 2 }, () => 'removed'),
    /\n2 files, /,
  )
  t.end()
})

t.test('what could not be read is told with the cause', t => {
  const unchecked = { ...empty.unchecked, unreadable: 3 }
  const report = { ...empty, files: 3, unchecked, unreadableBecause: 'permission denied' }
  t.match(
    reportText(report, () => ''),
    '\n3 could not be read: permission denied\n',
  )
  t.end()
})

t.test('everything wrong has a line with what became of it', t => {
  const wrong = {
    key: 'http://archive.example.org/a.deb',
    digest: '00',
    because: 'content',
    sentence: 'it is cut short',
  } as const
  t.match(
    reportText({ ...empty, files: 1, wrong: [wrong] }, () => 'removed'),
    /^http:\/\/archive\.example\.org\/a\.deb: damaged: it is cut short \(removed\)\n/,
  )
  t.end()
})

t.test('what was found about the signature of each suite', t => {
  const cases: ReadonlyArray<readonly [RepositoryReport['signature'], string]> = [
    [undefined, 'signature not checked (archives[].verify is off)'],
    [{ is: 'unchecked' }, 'signature not checked (there is no keyring)'],
    [{ is: 'good', by: 'abcdef' }, 'signed by ABCDEF'],
    [{ is: 'good', by: 'ab', owner: 'An <a@b>' }, 'signed by An <a@b>, key AB'],
    [{ is: 'unknown-key' }, 'key not known'],
    [{ is: 'unsigned' }, 'not signed'],
    [{ is: 'bad' }, 'signature bad'],
  ]
  for (const [signature, words] of cases) {
    const repositories = [{ ...stable, signature }]
    const [line] = reportText({ ...empty, files: 1, repositories }, () => '').split('\n')
    t.equal(line, `${stable.release}: ${words}`)
  }
  const repositories = [{ ...stable, signature: undefined, refused: 'it is not signed' }]
  t.match(
    reportText({ ...empty, repositories }, () => ''),
    'not used',
  )
  t.end()
})

t.test('a signature that apt refuses, by the day of the check', t => {
  const ends = { at: Date.parse('2030-02-01'), because: 'an RSA key of 2048 bits' }
  const repositories = [{ ...stable, signature: { is: 'good', by: 'ab', ends } as const }]
  const on = (finished: string) =>
    reportText({ ...empty, finished, repositories }, () => '').split('\n')[0]
  t.match(on('2030-01-31T00:00:00Z'), /signed by AB; apt takes it until 2030-02-01: an RSA key/)
  t.match(on('2030-02-01T00:00:00Z'), /signed by AB; apt refuses it since 2030-02-01: an RSA key/)
  t.end()
})
