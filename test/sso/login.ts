/**
 * Logins through a real identity provider, edge and browser: who arrives, where, and what the application is told.
 */
import type { BrowserContext } from 'playwright-core'
import t from 'tap'
import { noStage, setStage, told } from '../fixtures/sso/stage.ts'
import { type IdpUser, users } from '../fixtures/sso/users.ts'

t.setTimeout(300_000)

t.test('logging in', { skip: noStage, timeout: 300_000 }, async t => {
  const stage = await setStage(t)

  await t.test('a deep link survives, query and fragment', async t => {
    const page = await stage.signedIn(users.ada, '/reports/2026?sort=name&q=a%20b%2Fc#summary')
    t.equal(page.url(), `${stage.base}/reports/2026?sort=name&q=a%20b%2Fc#summary`)
    t.equal(await page.textContent('#target'), 'GET /reports/2026?sort=name&q=a%20b%2Fc')
    t.equal(await page.textContent('#fragment'), '#summary')
    await page.context().close()
  })

  await t.test(
    'somebody with e-mail: that is the subject, attributes have their fields',
    async t => {
      const page = await stage.signedIn(users.ada)
      t.equal(await told(page, 'User'), 'ada@example.test')
      t.equal(await told(page, 'Email'), 'ada@example.test')
      t.equal(await told(page, 'Displayname'), 'Ada Łovelace 愛')
      t.equal(await told(page, 'Groups'), 'engineering,Research%2C Applied,staff')
      t.equal(await told(page, 'Samaccountname'), undefined)
      await page.context().close()
    },
  )

  await t.test('somebody with an account name alone: that is the subject', async t => {
    const page = await stage.signedIn(users.bert)
    t.equal(await told(page, 'User'), 'bert01')
    t.equal(await told(page, 'Samaccountname'), 'bert01')
    t.equal(await told(page, 'Email'), undefined)
    await page.context().close()
  })

  await t.test('somebody with nothing: the NameID is the subject', async t => {
    const page = await stage.signedIn(users.cleo)
    t.match(await told(page, 'User'), /^_[0-9a-f]{20,}$/)
    t.equal(await told(page, 'Email'), undefined)
    await page.context().close()
  })

  await t.test('somebody whose attributes have object identifiers for names', async t => {
    const page = await stage.signedIn(users.gwen)
    t.equal(await told(page, 'User'), 'gwen@example.test')
    t.equal(await told(page, 'Displayname'), 'Gwen')
    t.equal(await told(page, 'Groups'), 'library')
    await page.context().close()
  })

  await t.test('accounts of two domains are two users, and a domain goes when told', async t => {
    const subjectOf = async (user: IdpUser) => {
      const page = await stage.signedIn(user)
      const subject = await told(page, 'User')
      await page.context().close()
      return subject
    }
    t.equal(await subjectOf(users.hugo), 'CORP\\hugo')
    t.equal(await subjectOf(users.hugh), 'PARTNER\\hugo')
    await stage.restart({ identity: { stripDomains: ['corp'] } })
    t.equal(await subjectOf(users.hugo), 'hugo')
    t.equal(await subjectOf(users.hugh), 'PARTNER\\hugo')
    await stage.restart({ identity: { stripDomains: [] } })
  })

  await t.test('an identity provider that signs by RSA with SHA-384', async t => {
    await stage.idp.behave({ algorithm: 'rsa-sha384' })
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
    await stage.idp.behave({ algorithm: 'rsa-sha256' })
  })

  await t.test(
    'somebody in 300 groups: every one arrives, in cookies of ordinary size',
    async t => {
      const fieldsOf = async (context: BrowserContext) => {
        const { text } = await stage.ask('/fields', { as: context })
        const { fields }: { fields: string[] } = JSON.parse(text)
        return (name: string) =>
          fields.find((_, index) => index % 2 === 1 && fields[index - 1] === name)
      }
      const page = await stage.signedIn(users.dora)
      for (const { name, value } of await page.context().cookies(stage.base)) {
        t.ok(name.length + value.length <= 4096, `${name} is ${value.length} bytes`)
      }
      const usual = (await fieldsOf(page.context()))('X-Authproxy-Groups') ?? ''
      t.equal(usual.split(',').length, 300)
      t.match(usual, 'CN=Group 299%2COU=Department 5%2COU=Groups')
      // 27 kB are more than many backends take in one field: left out whole, and said so.
      await stage.restart({ identity: { fieldSize: '16K' } })
      const less = await fieldsOf(page.context())
      t.equal(less('X-Authproxy-User'), 'dora@example.test')
      t.equal(less('X-Authproxy-Groups'), undefined)
      t.equal(less('X-Authproxy-Omitted'), 'X-Authproxy-Groups')
      await page.context().close()
    },
  )

  await t.test(
    'the application sees neither the session cookie nor what a client claims',
    async t => {
      const page = await stage.signedIn(users.ada)
      const { text } = await stage.ask('/fields', {
        as: page.context(),
        fields: {
          'X-Authproxy-User': 'root',
          X_Authproxy_User: 'root',
          'x-authproxy-groups': 'admin',
        },
      })
      t.notMatch(text, '__authproxy_session')
      t.notMatch(text, 'root')
      t.notMatch(text, '"admin"')
      t.match(text, 'ada@example.test')
      await page.context().close()
    },
  )

  await t.test('two tabs log in at once, and each arrives where it was going', async t => {
    const context = await stage.newContext()
    const first = await stage.open('/first?a=1#one', context)
    const second = await stage.open('/second?b=2#two', context)
    await stage.submit(first, users.ada)
    await stage.arrived(first)
    // The second form was shown before the first was sent.
    await stage.submit(second, users.ada)
    await stage.arrived(second)
    t.equal(first.url(), `${stage.base}/first?a=1#one`)
    t.equal(second.url(), `${stage.base}/second?b=2#two`)
    await context.close()
  })

  await t.test('ten tabs opened without a session leave few and small cookies', async t => {
    const context = await stage.newContext()
    for (let i = 0; i < 10; i += 1) await stage.open(`/tab/${i}`, context)
    const cookies = await context.cookies(stage.base)
    const size = cookies.reduce((sum, { name, value }) => sum + name.length + value.length, 0)
    t.ok(size < 6000, `${size} bytes`)
    const [last] = context.pages().slice(-1)
    if (last !== undefined) await stage.logIn(last, users.ada)
    t.equal(last?.url(), `${stage.base}/tab/9`)
    await context.close()
  })

  await t.test(
    'scripts without a session get 401 and the address of the login, and leave no state',
    async t => {
      const page = await stage.open('/')
      const fetched = await stage.ask('/fields', {
        fields: { 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty', Accept: 'application/json' },
      })
      t.equal(fetched.status, 401)
      t.equal(fetched.fields['set-cookie'], undefined)
      t.match(fetched.fields['x-authproxy-login'], /^https:\/\/app\.example\.test\//)
      // The address works: it leads to a login that comes back.
      await page.goto(String(fetched.fields['x-authproxy-login']))
      await stage.logIn(page, users.ada)
      await page.context().close()
    },
  )

  for (const [hours, name] of [
    [1, 'ahead'],
    [-1, 'behind'],
  ] as const) {
    await t.test(`a browser whose clock is an hour ${name} logs in and stays`, async t => {
      const context = await stage.newContext()
      // The clock its pages read.
      await context.clock.install({ time: Date.now() + hours * 3_600_000 })
      const page = await stage.open('/clock?x=1#there', context)
      await stage.logIn(page, users.ada)
      t.equal(page.url(), `${stage.base}/clock?x=1#there`)
      await page.reload()
      t.equal(await told(page, 'User'), 'ada@example.test')
      const seen = Number(await page.evaluate('Date.now()'))
      t.ok(Math.abs(seen - Date.now() - hours * 3_600_000) < 120_000, 'the browser is off')
      for (const { name, expires } of await context.cookies(stage.base)) {
        t.ok(expires > Date.now() / 1000 + 60, `${name} lasts`)
      }
      await context.close()
    })
  }

  for (const signs of ['assertion', 'response', 'both'] as const) {
    await t.test(`the identity provider signs ${signs}`, async t => {
      await stage.idp.behave({ signs })
      const page = await stage.signedIn(users.ada)
      t.equal(await told(page, 'User'), 'ada@example.test')
      await page.context().close()
    })
  }

  await t.test('encrypted assertions', async t => {
    await stage.idp.behave({ encrypt: true })
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
    await stage.idp.behave({ encrypt: false })
  })

  await t.test('signed requests, because the metadata asks for them', async t => {
    await stage.idp.behave({ wantSigned: true })
    await stage.restart()
    await stage.introduce()
    const page = await stage.signedIn(users.ada)
    t.equal(await told(page, 'User'), 'ada@example.test')
    await page.context().close()
  })

  await t.test(
    'samlRequestSigning: never, where signatures are asked for, is refused by the IdP',
    async t => {
      await stage.restart({ samlRequestSigning: 'never' })
      const page = await stage.open('/')
      await page.waitForURL(`${stage.idp.base}/**`)
      t.equal(await page.locator('input[name=username]').count(), 0)
      await page.context().close()
      await stage.idp.behave({ wantSigned: false })
      await stage.restart({ samlRequestSigning: 'always' })
      const signed = await stage.signedIn(users.ada)
      t.equal(await told(signed, 'User'), 'ada@example.test')
      await signed.context().close()
    },
  )
})

t.test('an identity provider that signs by ECDSA P-256', { skip: noStage }, async t => {
  const stage = await setStage(t, { idp: { algorithm: 'ecdsa-sha256', key: 'curve' } })
  const page = await stage.signedIn(users.ada, '/curve')
  t.equal(page.url(), `${stage.base}/curve`)
  t.equal(await told(page, 'User'), 'ada@example.test')
  await page.goto(`${stage.base}/saml/slo`)
  await page.waitForLoadState()
  t.equal((await stage.ask('/curve', { as: page.context() })).status, 401, 'signed out')
  await page.context().close()
})
