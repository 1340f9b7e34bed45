/** The credential of the backend behind a real edge, with the lines of docs/forward-auth.md. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startBehindEdge } from '../../fixtures/edges/behind-edge.ts'
import { type EdgeName, realEdges } from '../../fixtures/edges/real-edge.ts'
import { ownDirectory } from '../../fixtures/gateway/whole-gateway.ts'
import { lacking } from '../../fixtures/process/command.ts'

t.setTimeout(300_000)

const field = 'X-Gateway-Key'
const value = 'a-value-that-no-one-guesses'

const withLine: Readonly<Record<EdgeName, (text: string) => string>> = {
  nginx: text =>
    text.replace(
      'proxy_set_header Daphne-Root-Path "";\n',
      line =>
        `${line}auth_request_set $ap_gateway_key $upstream_http_x_gateway_key; proxy_set_header ${field} $ap_gateway_key;\n`,
    ),
  haproxy: text => text,
  caddy: text =>
    text
      .replace('request_header -Daphne-Root-Path\n', `$&\trequest_header -${field}\n`)
      .replace('copy_headers {\n', `$&\t\t\t${field}\n`),
}

for (const name of realEdges) {
  t.test(`97: ${name} copies it from the check`, { skip: lacking(name) }, async t => {
    const valueFile = join(await ownDirectory(t), 'key')
    await writeFile(valueFile, value, { mode: 0o600 })
    const backendCredential = { field, valueFile }
    const { application, browser, newBrowser, whole } = await startBehindEdge(t, name, {
      settings: { backendCredential, passthroughPaths: ['/open/'] },
      mistake: (_, text) => withLine[name](text),
    })
    await browser.signIn(whole.idp)
    for (const claim of [{}, { [field]: 'x' }]) {
      for (const [client, path] of [
        [browser, '/page'],
        [newBrowser(), '/open/page'],
      ] as const) {
        t.equal((await client.send('GET', path, claim)).status, 200)
        t.strictSame(application.requests.at(-1)?.fields.all(field), [value], path)
      }
    }
    const before = application.requests.length
    await newBrowser().send('GET', '/open/page', { 'X-Gateway_Key': value })
    for (const { fields } of application.requests.slice(before)) {
      t.notOk(fields.has('X-Gateway_Key'))
      t.strictSame(fields.all(field), [value])
    }
    const refused = await newBrowser().send('GET', '/page', {})
    t.not(refused.status, 200)
    t.notMatch(JSON.stringify(refused), value)
  })
}
