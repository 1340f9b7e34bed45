import t from 'tap'
import {
  parentProxies,
  readHostPattern,
  readParentProxies,
} from '../../../lib/cache/config/setting-kinds.ts'

const problem = (read: { ok: boolean; problem?: string }) => (read.ok ? undefined : read.problem)

t.test('host patterns', t => {
  const table: ReadonlyArray<readonly [string, string, boolean, number | undefined]> = [
    ['archive.example.org', 'archive.example.org', false, undefined],
    ['Archive.Example.ORG.', 'archive.example.org', false, undefined],
    ['.example.org', 'example.org', true, undefined],
    ['.example.org:8080', 'example.org', true, 8080],
    ['localhost', 'localhost', false, undefined],
    ['under_score.example.org', 'under_score.example.org', false, undefined],
    ['192.0.2.1:80', '192.0.2.1', false, 80],
    ['2001:DB8:0::1', '2001:db8::1', false, undefined],
    ['[2001:db8::1]:8080', '2001:db8::1', false, 8080],
    ['[2001:db8::1]', '2001:db8::1', false, undefined],
    ['bücher.example', 'xn--bcher-kva.example', false, undefined],
  ]
  for (const [text, host, subdomains, port] of table) {
    t.strictSame(readHostPattern(text), { ok: true, value: { text, host, subdomains, port } }, text)
  }
  t.end()
})

t.test('bad host patterns say how to mend them', t => {
  const table: ReadonlyArray<readonly [unknown, RegExp]> = [
    ['http://archive.example.org/debian', /write archive\.example\.org$/],
    ['http://bob:secret@archive.example.org/', /write archive\.example\.org$/],
    ['bob:secret@archive.example.org', /user name/],
    ['archive.example.org/debian', /only its host/],
    ['*.example.org', /write \.example\.org$/],
    ['ftp.*.example.org', /no wildcards/],
    ['archive.example.org:99999', /from 1 to 65535/],
    ['archive.example.org:', /from 1 to 65535/],
    ['archive..example.org', /expected a host/],
    ['-a.example.org', /expected a host/],
    [`${'a'.repeat(64)}.org`, /expected a host/],
    [`${'a.'.repeat(130)}org`, /expected a host/],
    ['256.1.1.1', /expected a host/],
    ['1.2', /expected a host/],
    ['.192.0.2.1', /expected a host/],
    ['[192.0.2.1]', /expected a host/],
    ['fe80::1%eth0', /expected a host/],
    ['.', /expected a host/],
    ['a b', /expected a host/],
    ['', /expected a host/],
    [5, /found 5/],
    [null, /found nothing/],
  ]
  for (const [text, expected] of table) {
    t.match(problem(readHostPattern(text)), expected, String(text).slice(0, 40))
    t.notMatch(problem(readHostPattern(text)), 'secret')
  }
  t.end()
})

t.test('a parent proxy brings its credentials decoded and shows them to nobody', t => {
  const value = (text: string) => {
    const read = readParentProxies(text)
    return read.ok ? read.value.parents[0] : read.problem
  }
  t.strictSame(value('http://proxy.example.org:3128'), {
    host: 'proxy.example.org',
    port: 3128,
    credentials: undefined,
    only: [],
    except: [],
  })
  t.strictSame(value('HTTP://Proxy.Example.Org/'), {
    host: 'proxy.example.org',
    port: 80,
    credentials: undefined,
    only: [],
    except: [],
  })
  t.strictSame(value('http://bob:p%40ss%3A@[::1]:8080'), {
    host: '::1',
    port: 8080,
    credentials: 'bob:p@ss:',
    only: [],
    except: [],
  })
  t.match(value('http://bob@proxy:1'), { host: 'proxy', port: 1, credentials: 'bob:' })
  const table: ReadonlyArray<readonly [string, RegExp]> = [
    ['https://bob:hunter2@proxy.example.org', /the scheme https.*not supported/],
    ['socks5://bob:hunter2@proxy.example.org', /the scheme socks5/],
    ['bob:hunter2@proxy.example.org:3128', /no scheme/],
    ['http://bob:hunter2@proxy.example.org/x', /found a path/],
    ['http://bob:hunter2@proxy.example.org:0', /a port is a number/],
    ['http://bob:hunter2@', /no usable host/],
    ['http://bob:hunter2%zz@proxy', /begins no escape/],
    ['http://b%3Aob:hunter2@proxy', /a colon/],
    ['http://bob:hunter2%0d%0aX: y@proxy', /control character/],
    ['', /no scheme/],
  ]
  for (const [text, expected] of table) {
    t.match(problem(readParentProxies(text)), expected, expected.source)
    t.notMatch(problem(readParentProxies(text)), 'hunter2')
  }
  t.match(problem(readParentProxies(5)), /no text/)
  const url = 'http://bob:hunter2@proxy.example.org:3128'
  const group = readParentProxies({ url, except: ['.corp.example.org', '192.0.2.7:8080'] })
  t.match(group, {
    value: {
      parents: [
        {
          host: 'proxy.example.org',
          credentials: 'bob:hunter2',
          only: [],
          except: [
            { host: 'corp.example.org', subdomains: true },
            { host: '192.0.2.7', port: 8080 },
          ],
        },
      ],
      direct: false,
    },
  })
  for (const [found, sentence] of [
    [{ except: [] }, /url: found no text/],
    [{ url: 'https://bob:hunter2@proxy' }, /url: found the scheme https/],
    [{ url, exept: [] }, /the key exept/],
    [{ url, except: 'corp.example.org' }, /a list/],
    [{ url, except: ['*.corp.example.org'] }, /write \.corp/],
    [{ url, only: '.corp.example.org' }, /only: expected a list/],
    [[url, { url: 'https://bob:hunter2@proxy' }], /2: url: found the scheme https/],
    [['direct', url], /direct can only be the last/],
    [['direct'], /one parent proxy at least/],
    [[], /one parent proxy at least/],
    [[url, { url, only: ['a.example.org'] }], /each parent proxy once/],
    [Array.from({ length: 9 }, (_, i) => `http://bob:hunter2@p${i}:1`), /8 parent proxies at most/],
  ] as const) {
    t.match(problem(readParentProxies(found)), sentence)
    t.notMatch(problem(readParentProxies(found)), 'hunter2')
  }
  const list = readParentProxies([
    { url, only: ['.corp.example.org'] },
    'http://b.example.org',
    'direct',
  ])
  t.match(list, {
    value: {
      parents: [
        { host: 'proxy.example.org', only: [{ host: 'corp.example.org' }] },
        { host: 'b.example.org', port: 80, credentials: undefined, only: [] },
      ],
      direct: true,
    },
  })
  t.equal(parentProxies.name, 'URL')
  t.end()
})
