/**
 * The recipes of docs/recipes for identity providers: the configuration of each is one that starts, and the development identity
 * provider, answering as the product does, signs people in and out with it. What the recipe says the application gets is what it gets.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startDevIdp } from '../../demo/idp/command.ts'
import { people } from '../../demo/idp/people.ts'
import { type DevProfile, type ProfileName, profiles } from '../../demo/idp/profile.ts'
import { configCheck } from '../../lib/auth/config/loading/load-config.ts'
import { decodeConfig } from '../../lib/config/config-file.ts'
import type { Response } from '../../lib/http/message/message.ts'
import { isRecord } from '../../lib/json.ts'
import { packageRoot } from '../../lib/package.ts'
import { ownDirectory, startWhole } from '../fixtures/gateway/whole-gateway.ts'
import { formOf, hrefOf, htmlOf, inputsOf, pathOf, readAsked } from '../fixtures/saml/browser.ts'
import { sp } from '../fixtures/saml/idp.ts'

t.setTimeout(300_000)

const folder = join(packageRoot(), 'docs/recipes')
const names = Object.keys(profiles) as ProfileName[]

interface Recipe {
  readonly text: string
  /** The configuration. */
  readonly yaml: string
  /** What the application gets of ada, by field. */
  readonly fields: Readonly<Record<string, string>>
}

function recipeOf({ recipe }: DevProfile): Recipe {
  const text = readFileSync(join(folder, `${recipe}.md`), 'utf8')
  const [, yaml = ''] = /```yaml\n(.*?)```/s.exec(text) ?? []
  const rows = [...text.matchAll(/^\| .* \| `(X-Authproxy-[\w-]+)` \| `(.*)` \|$/gm)]
  return { text, yaml, fields: Object.fromEntries(rows.map(([, name, value]) => [name, value])) }
}

/** The settings of a block, as a file would have them. */
function settingsIn(yaml: string): Readonly<Record<string, unknown>> {
  const read = decodeConfig(yaml, 'recipe.yaml', found =>
    isRecord(found)
      ? { ok: true, value: found, warnings: [] }
      : { ok: false, problems: [], warnings: [] },
  )
  if (!read.ok) throw new Error(read.problems.join('\n'))
  return read.value
}

/** A gateway with the settings of a recipe in front of the development identity provider, and a browser at both. */
async function arrange(t: Test, profile: ProfileName, yaml: string) {
  const idp = await startDevIdp(
    { address: '127.0.0.1', port: 0 },
    {
      ...{ profile, people: people, hosts: [sp.domain], wantSigned: false },
      ...{ encryptTo: () => undefined, encryptParts: false },
    },
  )
  t.teardown(() => Promise.all(idp.service.stop.map(step => step.stop())))
  const jar = new Map<string, string>()
  const atIdp = async (address: string, form?: Readonly<Record<string, string>>) => {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const type = { 'Content-Type': 'application/x-www-form-urlencoded' }
    const answer = await fetch(new URL(address, idp.baseUrl), {
      ...{ redirect: 'manual', headers: { Cookie: cookie, ...(form === undefined ? {} : type) } },
      ...(form === undefined ? {} : { method: 'POST', body: formOf(form) }),
    })
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      jar.set(name, value)
    }
    return { location: answer.headers.get('Location') ?? '', text: await answer.text() }
  }
  const directory = await ownDirectory(t)
  const metadata = await atIdp('/metadata')
  const idpMetadataFile = join(directory, 'of-the-recipe.xml')
  // Metadata that is marked as one for development is refused for a public name.
  await writeFile(idpMetadataFile, metadata.text.replace(/ xmlns:dev="[^"]*" dev:only="true"/, ''))
  const { idpMetadataURL: _url, proxy: _proxy, ...own } = settingsIn(yaml)
  const gateway = await startWhole(t, { directory, settings: { ...own, idpMetadataFile } })
  const { browser, backend } = gateway
  /** Opens a page, and signs in as this person where the identity provider asks. */
  const signIn = async (name: string): Promise<{ asked: boolean; answer: Response }> => {
    const { address, response } = readAsked(await browser.navigate('/'))
    const html = htmlOf(response)
    const posted = /action="/.test(html) ? inputsOf(html) : undefined
    const page = await atIdp(address, posted)
    const { login } = inputsOf(page.text)
    const form = login === undefined ? page : await atIdp('/login', { login, one: name })
    const taken = await browser.post('/saml/acs', formOf(inputsOf(form.text)))
    const answer = taken.status === 303 ? await browser.navigate(pathOf(hrefOf(taken))) : taken
    return { asked: login !== undefined, answer }
  }
  /** What the application is told of the person, by field. */
  const told = async (): Promise<Readonly<Record<string, string>>> => {
    await browser.navigate('/page')
    const fields = [...(backend.requests.at(-1)?.fields ?? [])]
    const own = fields.filter(([name]) => /^X-Authproxy-(?!Request-ID|Instance-ID)/i.test(name))
    return Object.fromEntries(
      own.map(([name, value]) => [name, Buffer.from(value, 'latin1').toString()]),
    )
  }
  return { ...gateway, atIdp, signIn, told }
}

t.test('each profile of the development identity provider has its recipe', async t => {
  const described = names.map(name => `${profiles[name].recipe}.md`).sort()
  const files = readdirSync(folder).filter(name => describesProvider(name))
  t.strictSame(files.sort(), described)
})

/** Whether a recipe is one for an identity provider: it says with which profile to try it. */
function describesProvider(name: string): boolean {
  return readFileSync(join(folder, name), 'utf8').includes('authproxy demo --profile')
}

for (const name of names) {
  const profile = profiles[name]
  const { text, yaml, fields } = recipeOf(profile)

  t.test(`${profile.recipe}: the file as it stands is taken, without a warning`, async t => {
    const given = yaml.replace(
      /^idpMetadataFile: .*$/m,
      'idpMetadataURL: https://idp.example.org/m',
    )
    t.match(decodeConfig(given, 'recipe.yaml', configCheck('app')), { ok: true, warnings: [] })
    t.match(text, `authproxy demo --profile ${name}`)
    const { nameIDFormat } = profile.settings.saml ?? {}
    t.strictSame(
      settingsIn(yaml)['saml'],
      nameIDFormat === undefined ? undefined : { nameIDFormat },
      'the recipe and the demonstration have the same settings',
    )
  })

  t.test(`${profile.recipe}: people sign in and out as the recipe says`, async t => {
    const { signIn, told, codes, browser, atIdp } = await arrange(t, name, yaml)
    t.ok((await signIn('ada')).asked, 'the identity provider has asked')
    t.strictSame(codes(), [])
    t.strictSame(await told(), fields)

    const out = await browser.navigate('/saml/slo')
    const end = profile.singleLogout
      ? await browser.navigate(pathOf((await atIdp(hrefOf(out))).location))
      : out
    t.match(htmlOf(end), /signed out/i)
    t.equal((await browser.navigate('/')).status, 401)
    const ends = profile.singleLogout
      ? /\| Sign out \| ends the session here and /
      : /\| Sign out \| .* here only/
    t.match(text, ends)
    // A session that is still there answers without a question.
    t.equal((await signIn('cleo')).asked, profile.singleLogout)

    if (!profile.singleLogout) return
    const { 'X-Authproxy-User': user = '' } = await told()
    const changes = /^_[0-9a-f]{32}$/.test(user)
    t.equal(changes, text.includes('gets a different name at every login'), user)
  })
}

t.test('entra-id: more than 150 groups', async t => {
  const { yaml, text } = recipeOf(profiles.entra)
  const { signIn, told } = await arrange(t, 'entra', yaml)
  await signIn('dora')
  const fields = await told()
  t.equal(fields['X-Authproxy-Groups-Overage'], 'true')
  t.equal(fields['X-Authproxy-Groups'], undefined)
  t.match(text, 'X-Authproxy-Groups-Overage')
})

for (const name of names.filter(name => profiles[name].otherNameId === 'refused')) {
  t.test(`${profiles[name].recipe}: another format of NameID than the recipe has`, async t => {
    const { yaml, text } = recipeOf(profiles[name])
    const wrong = `${yaml.replace(/^saml:\n(?: .*\n)*/m, '')}saml: { nameIDFormat: "urn:oasis:names:tc:SAML:2.0:nameid-format:kerberos" }\n`
    const { signIn, log } = await arrange(t, name, wrong)
    const { answer } = await signIn('ada')
    t.match(answer.status, 403)
    t.match(JSON.stringify(log.lines), 'InvalidNameIDPolicy')
    t.match(text, '`InvalidNameIDPolicy`')
  })
}
