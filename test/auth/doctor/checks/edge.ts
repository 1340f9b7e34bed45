import t from 'tap'
import { startPatient } from '../../../fixtures/gateway/patient.ts'
import type { EdgeWays } from '../../../fixtures/gateway/scripted-edge.ts'

t.test('a healthy instance is found healthy, and every check says what it saw', async t => {
  const patient = await startPatient(t, { settings: { admin: { listenAddress: '127.0.0.1:0' } } })
  const admin = { address: '127.0.0.1', port: patient.gateway.service.adminPort ?? 0 }
  const found = await patient.examined({ config: patient.configWith({ admin }), groups: 60 })
  const bad = found.filter(
    // The port of the admin listener is one the file does not name.
    ({ state, what }) => state !== 'right' && what !== 'configuration in force',
  )
  t.same(bad, [])
  t.same(
    found.map(({ what }) => what),
    [
      'configuration',
      'dynamic configuration',
      'own SAML certificate',
      'service',
      'configuration in force',
      'readiness',
      'backend',
      'loop',
      'names beyond ASCII',
      'name of the public host',
      'certificate of the public host',
      'public host',
      'clock against the edge',
      'Host through the edge',
      'X-Forwarded-Proto through the edge',
      'X-Forwarded-For through the edge',
      'paths through the edge',
      'odd paths through the edge',
      'pages of errors through the edge',
      'WebSockets through the edge',
      'cookies of a session through the edge',
      'cookies of a login through the edge',
      'IdP metadata',
      'IdP certificates',
      'clock against the IdP',
      'session size',
    ],
  )
  t.equal(patient.gateway.log.lines.filter(({ level }) => level === 'warn').length, 0)
})

/** What is said of an edge that does this. */
type Case = readonly [
  ways: EdgeWays,
  findings: ReadonlyArray<readonly [what: string, state: string, found: RegExp, mend: RegExp]>,
]

const cases: readonly Case[] = [
  [
    {
      host: 'inside.example.org',
      proto: 'hand-on',
      forwardedFor: 'append',
      upgrades: false,
      answers: (_, method) => (method === 'POST' ? 403 : undefined),
      cookies: 4096,
      response: 4096,
      fields: { date: new Date(Date.now() - 120_000).toUTCString() },
    },
    [
      [
        'Host through the edge',
        'wrong',
        /^inside\.example\.org arrives instead of app\.example\.org:\d+$/,
        /proxy_set_header Host/,
      ],
      [
        'X-Forwarded-Proto through the edge',
        'wrong',
        /^http: the edge forwards what a client claims/,
        /X-Forwarded-Proto https/,
      ],
      [
        'X-Forwarded-For through the edge',
        'wrong',
        /^192\.0\.2\.99, 127\.0\.0\.1: a client can claim any address/,
        /\$remote_addr/,
      ],
      ['WebSockets through the edge', 'doubtful', /Upgrade is lost/, /\$http_upgrade/],
      [
        'paths through the edge',
        'wrong',
        /^POST \/saml\/acs is answered 403 by another server$/,
        /POST included/,
      ],
      [
        'cookies of a session through the edge',
        'wrong',
        /^a request with \d+ bytes \(150 groups\) of them is answered 400/,
        /large_client_header_buffers/,
      ],
      [
        'cookies of a login through the edge',
        'wrong',
        /^a response with \d+ bytes \(150 groups\) of fields is answered 502/,
        /proxy_buffer_size/,
      ],
      ['clock against the edge', 'doubtful', /^ours is 1\d\d s ahead$/, /NTP/],
    ],
  ],
  [
    {
      proto: 'drop',
      forwardedFor: 'drop',
      answers: target => (target === '/__authproxy-redirect' ? 404 : undefined),
      target: target => target.replaceAll('%2F', '/'),
      cutsCookies: 4096,
      fields: { age: '5' },
    },
    [
      ['X-Forwarded-Proto through the edge', 'doubtful', /does not arrive/, /Proto https/],
      [
        'X-Forwarded-For through the edge',
        'doubtful',
        /every client appears as 127\.0\.0\.1/,
        /\$remote_addr/,
      ],
      [
        'paths through the edge',
        'wrong',
        /^GET \/__authproxy-redirect is answered 404/,
        /every path/,
      ],
      ['odd paths through the edge', 'doubtful', /arrives as \/doctor\/a\/b/, /nocanon/],
      ['cookies of a session through the edge', 'wrong', /only 4096 arrive/, /identity\.groups/],
      ['clock against the edge', 'doubtful', /no time of its own/, /date -u/],
    ],
  ],
  [
    {
      proto: 'say-http',
      forwardedFor: 'hand-on',
      target: target => target.replace(/^\/saml\/slo/, '/inside/saml/slo'),
      joinsCookies: ', ',
    },
    [
      ['cookies of a session through the edge', 'wrong', /joins or splits them/, /RFC 9113/],
      ['X-Forwarded-Proto through the edge', 'wrong', /^http, http/, /Proto https/],
      ['X-Forwarded-For through the edge', 'wrong', /claim any address/, /\$remote_addr/],
      [
        'paths through the edge',
        'wrong',
        /^GET \/saml\/slo arrives as GET \/inside\/saml\/slo$/,
        /every path unchanged/,
      ],
    ],
  ],
]

for (const [ways, findings] of cases) {
  t.test(`what the edge does to requests is seen: ${Object.keys(ways).join(', ')}`, async t => {
    const patient = await startPatient(t)
    patient.edge.ways = ways
    const all = await patient.examined()
    for (const [what, state, found, mend] of findings) {
      t.match(
        all.find(diagnosis => diagnosis.what === what),
        { state, found, mend },
        what,
      )
    }
    const bad = all.filter(({ what, state }) => what.includes('edge') && state !== 'right')
    t.equal(bad.length, findings.length, 'and nothing else is said of it')
  })
}

t.test('an edge that is not believed, and one with nothing to believe', async t => {
  const patient = await startPatient(t, { proxy: { trustedProxies: [] } })
  t.match(await patient.find('X-Forwarded-For through the edge'), {
    state: 'doubtful',
    found: /127\.0\.0\.1 is not trusted/,
    mend: /proxy\.trustedProxies/,
  })
})

t.test('an edge that leads elsewhere is told by what it answers', async t => {
  const patient = await startPatient(t)
  const { edge, gateway } = patient
  const answering = (status: number): EdgeWays => ({ answers: () => status })
  for (const [ways, state, found] of [
    [answering(404), 'wrong', /answers 404, and not with our metadata/],
    [answering(503), 'wrong', /the edge does not reach the service/],
  ] as const) {
    edge.ways = ways
    t.match(await patient.find('public host'), { state, found })
    const all = await patient.examined()
    const through = all.filter(({ what }) => what.endsWith('through the edge'))
    t.ok(through.length === 9 && through.every(one => one.state === 'not asked'))
  }
  edge.ways = answering(508)
  t.match(await patient.find('loop'), { state: 'wrong', found: /508/ })
  edge.ways = {}
  const other = await startPatient(t, {
    settings: { domain: `app.example.org:${edge.port}` },
  })
  edge.to = other.gateway.port
  t.match(await patient.find('public host'), {
    state: 'wrong',
    found: /^https:\/\/app\.example\.org:\d+\/saml\/metadata\.xml answers 200/,
  })
  edge.to = 9
  t.match(await patient.find('public host'), { state: 'wrong', found: /502/ })
  edge.to = gateway.port
  const config = patient.configWith({ baseUrl: 'https://app.example.org:9' })
  t.match(await patient.find('public host', { config }), {
    state: 'doubtful',
    found: /does not answer: .*ECONNREFUSED/,
  })
  const lookup = async () => {
    throw new Error('getaddrinfo ENOTFOUND app.example.org')
  }
  t.match(await patient.find('name of the public host', { lookup }), {
    state: 'doubtful',
    found: /ENOTFOUND/,
    mend: /etc\/hosts/,
  })
})

t.test('the certificate of the public host is looked at, whatever it is', async t => {
  const day = 86_400_000
  for (const [certificate, state, found] of [
    [{ until: new Date(Date.now() - day) }, 'wrong', /^expired on \d{4}-\d\d-\d\d$/],
    [{ until: new Date(Date.now() + 5.5 * day) }, 'doubtful', /, 5 days$/],
    [{ names: ['other.example.org'] }, 'wrong', /for another name/],
    [{}, 'right', /^until 2049-01-01, \d+ days$/],
  ] as const) {
    const patient = await startPatient(t, { certificate })
    t.match(await patient.find('certificate of the public host'), { state, found })
    t.match(
      await patient.find('public host'),
      { state: 'right' },
      'and the rest is seen all the same',
    )
  }
  const patient = await startPatient(t)
  t.match(await patient.find('certificate of the public host', { ca: [] }), {
    state: 'doubtful',
    found: /authority that is not known here/,
    mend: /NODE_EXTRA_CA_CERTS/,
  })
})
