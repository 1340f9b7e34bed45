/**
 * Secrets in files and in credentials of the service manager.
 */
import { execFileSync } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { tokenDigest } from '../../../lib/auth/access/passthrough.ts'
import { loadConfig } from '../../../lib/auth/config/loading/load-config.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'

const token = 'A-token-that-no-one-guesses-42'
const proxy = 'http://fetcher:hunter2@proxy.example.org:3128'

/** Loads an instance whose file has these lines besides the least. */
async function lab(t: Test) {
  const directory = await ownDirectory(t)
  const credentials = join(directory, 'credentials')
  await mkdir(credentials)
  const file = async (name: string, content: string | Buffer, mode = 0o600) => {
    await writeFile(join(directory, name), content)
    await chmod(join(directory, name), mode)
    return join(directory, name)
  }
  const load = async (lines: string, environment: Record<string, string> = {}) => {
    const least = `domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
proxy: { listenAddress: "127.0.0.1:8080", targetURL: "http://127.0.0.1:3000" }
`
    await writeFile(join(directory, 'app.yaml'), `${least}${lines}\n`)
    const loaded = await loadConfig({
      ...{ instance: 'app', file: undefined, configDirectory: directory, environment },
    })
    const problems = loaded.ok ? '' : loaded.problems.join('\n')
    return { config: loaded.ok ? loaded.value : undefined, problems, warnings: loaded.warnings }
  }
  return { directory, credentials, file, load }
}

const listed = (place: string) => `passthroughTokens: [{ name: monitoring, ${place} }]`

t.test('a token, its digest and a proxy may each stand in a file', async t => {
  const { file, load } = await lab(t)
  const digest = tokenDigest(token)
  for (const content of [token, `${token}\n`, `${token}\r\n`]) {
    const { config, warnings } = await load(listed(`tokenFile: ${await file('token', content)}`))
    t.same(config?.passthroughTokens[0]?.sha256, digest)
    t.same(warnings, [])
  }
  const hexadecimal = await file('digest', `${digest.toString('hex')}\n`)
  const { config } = await load(listed(`sha256File: ${hexadecimal}`))
  t.same(config?.passthroughTokens[0]?.sha256, digest)
  const written = await file('sum', `${digest.toString('hex')}  -\n`)
  const summed = await load(listed(`sha256File: ${written}`))
  t.same(summed.config?.passthroughTokens[0]?.sha256, digest, 'as sha256sum prints it')
  const asToken = await load(listed(`tokenFile: ${hexadecimal}`))
  t.same(
    asToken.config?.passthroughTokens[0]?.sha256,
    tokenDigest(digest.toString('hex')),
    'a token of 64 digits is no digest',
  )
  const fetched = await load(`idpMetadataProxyFile: ${await file('proxy', `${proxy}\n`)}`)
  t.match(fetched.config?.saml.idpMetadataProxy, {
    ...{ host: 'proxy.example.org', port: 3128, credentials: 'fetcher:hunter2' },
  })
})

t.test('a credential is a file in the directory that the service manager names', async t => {
  const { credentials, file, load } = await lab(t)
  await file('credentials/monitoring', token)
  const environment = { CREDENTIALS_DIRECTORY: credentials }
  const found = await load(listed('tokenFile: "credential:monitoring"'), environment)
  t.same(found.config?.passthroughTokens[0]?.sha256, tokenDigest(token))
  const absent = await load(listed('tokenFile: "credential:other"'), environment)
  t.match(absent.problems, /tokenFile: credential:other: there is no such file$/)
  const byHand = await load(listed('tokenFile: "credential:monitoring"'))
  t.match(
    byHand.problems,
    /no such file; CREDENTIALS_DIRECTORY is not set.*authproxy@app\.service.*LoadCredential=/,
  )
  for (const name of ['', '..', '.', 'a/b', '../x', 'a b', '%2e']) {
    const { problems } = await load(listed(`tokenFile: "credential:${name}"`), environment)
    t.match(problems, /found no name of a credential/, name)
  }
})

t.test('what is wrong is told without what the file holds', async t => {
  const { directory, file, load } = await lab(t)
  const fifo = join(directory, 'fifo')
  execFileSync('mkfifo', [fifo])
  for (const [lines, problem] of [
    [listed('tokenFile: /nonexistent/token'), /app\.yaml:4:.*tokenFile: .*there is no such file/],
    [listed(`tokenFile: ${directory}`), /is not a regular file|it is a directory/],
    [listed(`tokenFile: ${fifo}`), /is not a regular file/],
    [listed(`tokenFile: ${await file('empty', '')}`), /expected a token of visible ASCII/],
    [listed(`tokenFile: ${await file('short', 'hunter2')}`), /fewer than 16 characters/],
    [listed(`tokenFile: ${await file('two', `hunter2-${token}\nx`)}`), /visible ASCII/],
    [listed(`tokenFile: ${await file('long', 'hunter2'.repeat(2000))}`), /larger than 8192 bytes/],
    [listed(`sha256File: ${await file('word', `hunter2${token}`)}`), /64 hexadecimal digits/],
    [listed('tokenFile: token'), /an absolute path/],
    [listed(`tokenFile: /x, token: ${token}`), /has token and tokenFile; leave one/],
    [listed('sha256File: /x, tokenFile: /y'), /has sha256File and tokenFile; leave one/],
    ['passthroughTokens: [{ name: monitoring }]', /none of sha256, token, sha256File, tokenFile/],
    [`idpMetadataProxyFile: ${await file('url', 'https://hunter2@x')}`, /scheme https/],
    [
      `idpMetadataProxyFile: /x\nidpMetadataProxy: ${proxy}`,
      /idpMetadataProxyFile: not together with idpMetadataProxy; leave one/,
    ],
  ] as const) {
    const { config, problems } = await load(lines)
    t.equal(config, undefined, lines)
    t.match(problems, problem, lines)
    t.notMatch(problems, /hunter2/)
  }
})

t.test('a file that every user can read is warned of', async t => {
  const { file, load } = await lab(t)
  for (const [mode, warned] of [
    [0o600, false],
    [0o640, false],
    [0o644, true],
    [0o604, true],
  ] as const) {
    const { warnings } = await load(listed(`tokenFile: ${await file('token', token, mode)}`))
    t.equal(
      warnings.some(line => /tokenFile: can be read by every user/.test(line)),
      warned,
    )
  }
})

t.test('the environment names files as well', async t => {
  const { file, load } = await lab(t)
  const whole = {
    AUTHPROXY_DOMAIN: 'env.example.org',
    AUTHPROXY_PROXY_LISTEN_ADDRESS: '127.0.0.1:1234',
    AUTHPROXY_PROXY_TARGET_URL: 'http://127.0.0.1:1',
    AUTHPROXY_IDP_METADATA_URL: 'https://idp.example.org/metadata',
    AUTHPROXY_PASSTHROUGH_TOKEN_FILE: await file('token', token),
    AUTHPROXY_IDP_METADATA_PROXY_FILE: await file('proxy', proxy),
  }
  const { config } = await load('', whole)
  t.match(config?.passthroughTokens, [{ name: 'environment', sha256: tokenDigest(token) }])
  t.match(config?.saml.idpMetadataProxy, { credentials: 'fetcher:hunter2' })
  const wrong = await load('', { ...whole, AUTHPROXY_PASSTHROUGH_TOKEN_FILE: '/nonexistent' })
  t.match(wrong.problems, /^AUTHPROXY_PASSTHROUGH_TOKEN_FILE: \/nonexistent: there is no such file/)
  const both = await load('', { ...whole, AUTHPROXY_PASSTHROUGH_TOKEN: token })
  t.match(both.problems, /has token and tokenFile; leave one/)
})
