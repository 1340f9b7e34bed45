import fs from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startWhole } from '../../fixtures/gateway/whole-gateway.ts'
import { RawClient } from '../../fixtures/http/raw-client.ts'

const svg =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 1"><path d="M0 0h2v1H0z"/></svg>'

/** The page at the address of the ACS, which is none to visit. */
async function pageFor(t: Test, language: string | undefined, settings = {}, accept = 'text/html') {
  const { port } = await startWhole(t, { settings })
  const client = await RawClient.connect(t, port)
  const fields = language === undefined ? {} : { 'Accept-Language': language }
  return client.get('/saml/acs', { Host: 'app.example.org', Accept: accept, ...fields })
}

t.test('no file is read for the first failure: it may be of another version by then', async t => {
  const { port } = await startWhole(t)
  const { readFileSync } = fs
  t.teardown(() => {
    Object.assign(fs, { readFileSync })
    syncBuiltinESMExports()
  })
  const read: string[] = []
  Object.assign(fs, {
    readFileSync(...of: Parameters<typeof readFileSync>) {
      read.push(String(of[0]))
      return readFileSync(...of)
    },
  })
  syncBuiltinESMExports()
  const client = await RawClient.connect(t, port)
  const { text } = await client.get('/saml/acs', { Host: 'app.example.org', Accept: 'text/html' })
  t.match(text, 'Nothing to see here')
  t.strictSame(read, [])
})

t.test('a page is in the language of the browser, and says so', async t => {
  for (const [asked, tag, title] of [
    ['de-DE, en;q=0.5', 'de', 'Hier gibt es nichts zu sehen'],
    ['da', 'da', 'Her er intet at se'],
    ['fr', 'fr', 'Rien à voir ici'],
    ['nl', 'en', 'Nothing to see here'],
    [undefined, 'en', 'Nothing to see here'],
  ] as const) {
    const { text, fields } = await pageFor(t, asked)
    t.match(text, `<html lang="${tag}">`)
    t.match(text, `<h1>${title}</h1>`)
    t.equal(fields.get('Content-Language'), tag)
    t.match(fields.all('Vary').join(', '), /Accept-Language/)
  }
})

t.test('a program gets English, whatever it accepts', async t => {
  const { text, fields } = await pageFor(t, 'de', {}, 'application/json')
  t.equal(JSON.parse(text).title, 'Nothing to see here')
  t.equal(fields.get('Content-Language'), undefined)
})

t.test('the administrator reads in a fold, in English', async t => {
  const { text } = await pageFor(t, 'de')
  const fold = /<details>(.*)<\/details>/s.exec(text)?.[1] ?? ''
  t.match(fold, '<summary>Für die Administration</summary>')
  t.match(fold, /<div lang="en">.*<code>sudo -u authproxy authproxy explain \S+ test<\/code>/s)
  t.match(text, /<p>Gehen Sie zur Anwendung/, 'the advice for the person is outside')
  t.notMatch(fold, 'Gehen Sie')
})

t.test('contact, colours and logo by setting', async t => {
  const logo = join(t.testdir(), 'logo.svg')
  await writeFile(logo, svg)
  const pages = { contact: 'helpdesk@example.org', colour: '#004d40', colourDark: '#80cbc4', logo }
  const { text, fields } = await pageFor(t, undefined, { pages })
  t.match(text, '<a href="mailto:helpdesk@example.org">helpdesk@example.org</a>')
  t.match(text, '--mark: #004d40 }')
  t.match(text, '--mark: #80cbc4 }')
  t.match(text, '<img class="logo" src="/__authproxy/logo" alt="">')
  t.match(fields.get('Content-Security-Policy'), /; img-src 'self';/)
})

t.test('the logo is answered without a login, and can run nothing', async t => {
  const logo = join(t.testdir(), 'logo.svg')
  await writeFile(logo, svg)
  const { port } = await startWhole(t, { settings: { pages: { logo } } })
  const client = await RawClient.connect(t, port)
  const answer = await client.get('/__authproxy/logo', { Host: 'app.example.org' })
  t.equal(answer.status, 200)
  t.equal(answer.text, svg)
  t.equal(answer.fields.get('Content-Type'), 'image/svg+xml')
  t.match(answer.fields.get('Content-Security-Policy'), /default-src 'none'.*sandbox/)
  const again = { Host: 'app.example.org', 'If-None-Match': answer.fields.get('ETag') ?? '' }
  t.equal((await client.get('/__authproxy/logo', again)).status, 304)
})

t.test('without a logo the page has none, and the path is the backend’s', async t => {
  const { text, fields } = await pageFor(t, undefined)
  t.notMatch(text, '<img')
  t.notMatch(fields.get('Content-Security-Policy'), /img-src/)
  const { port } = await startWhole(t, { settings: { passthroughPaths: ['/__authproxy/'] } })
  const client = await RawClient.connect(t, port)
  const answer = await client.get('/__authproxy/logo', { Host: 'app.example.org' })
  t.equal(answer.text, 'the application')
})

t.test('a contact that is no address is plain text, escaped', async t => {
  for (const contact of ['phone 555 <0100>', 'javascript:alert(1)@example.org']) {
    const { text } = await pageFor(t, undefined, { pages: { contact } })
    t.notMatch(/<p class="contact">.*<\/p>/.exec(text)?.[0], /<a |<0100>/)
  }
})

t.test('a logo that cannot be read stops the start, and names the setting', async t => {
  const pages = { logo: join(t.testdir(), 'absent.png') }
  await t.rejects(startWhole(t, { settings: { pages } }), {
    message: /^cannot read pages\.logo: .*absent\.png/,
  })
})
