/**
 * `authproxy explain REFERENCE`, run beside an instance that has just shown somebody a failure page.
 */
import t from 'tap'
import { eventually } from '../fixtures/process/ports.ts'
import { failureShown } from '../fixtures/sso/look.ts'
import { noStage, setStage } from '../fixtures/sso/stage.ts'
import { users } from '../fixtures/sso/users.ts'

t.setTimeout(120_000)

t.test('a failure explained', { skip: noStage, timeout: 120_000 }, async t => {
  const stage = await setStage(t)
  /** Failures are written down within a second. */
  const explain = async (id: string) => {
    let said = { code: -1 as number | null, output: '' }
    await eventually(async () => {
      said = await stage.gateway.run('explain', id)
      return said.code === 0
    })
    return said
  }

  await t.test('a refused assertion, field by field, and nothing of the person', async t => {
    await stage.gateway.ahead(3600)
    const page = await stage.open('/start?secret=of-the-query')
    let form = ''
    page.on('request', request => {
      if (request.url().endsWith('/saml/acs')) form = request.postData() ?? form
    })
    await stage.submit(page, users.ada)
    await page.waitForURL(`${stage.base}/**`)
    const { requestId } = await failureShown(t, page, 'explained')
    await stage.gateway.ahead(0)
    const { code, output } = await explain(requestId)
    t.equal(code, 0)
    t.match(output, /^SAML-ERROR too_old$/m)
    t.match(output, /^request +POST \/saml\/acs$/m)
    t.match(output, /^client +127\.0\.0\.1$/m)
    t.match(output, /the clock of the IdP is 3[56]\d\d s behind ours/)
    // What held, without its value; what did not, with both.
    for (const held of ['Assertion Issuer', 'Destination', 'Recipient', 'Audience']) {
      t.match(output, new RegExp(`^ok +${held}$`, 'm'))
    }
    t.match(
      output,
      /^WRONG Assertion IssueInstant\n +expected from \d{4}-\d\d-\d\dT[\d:.]+Z\n +received \d{4}-\d\d-\d\dT[\d:.]+Z$/m,
    )
    t.match(output, /^WRONG SubjectConfirmationData NotOnOrAfter\n +expected after /m)
    t.match(output, /^WRONG Conditions NotOnOrAfter\n +expected after /m)
    // Redacted: no person, no assertion, no cookie, no query.
    const assertion = new URLSearchParams(form).get('SAMLResponse') ?? ''
    t.ok(assertion.length > 1000)
    t.notMatch(output, /ada|Łovelace|engineering|of-the-query/)
    t.notMatch(output, assertion.slice(0, 60))
    for (const { value } of await page.context().cookies(stage.base)) {
      t.notOk(output.includes(value.slice(0, 40)), 'no cookie')
    }
    t.equal((await explain(`SAML-ERROR ${requestId}`)).output, output, 'as people copy it')
    await page.context().close()
  })

  await t.test('a backend that is away', async t => {
    const page = await stage.signedIn(users.ada)
    await stage.restart({ proxy: { targetURL: 'http://127.0.0.1:9' } })
    await page.goto(`${stage.base}/away`)
    const { requestId } = await failureShown(t, page, 'explained-away')
    const { output } = await explain(requestId)
    t.match(output, /^PROXY-ERROR backend_connect_refused$/m)
    t.match(output, /127\.0\.0\.1:9|ECONNREFUSED/)
    await page.context().close()
  })

  await t.test('an ID that nobody has', async t => {
    const { code, output } = await stage.gateway.run('explain', 'ffffffff-1')
    t.equal(code, 1)
    t.match(output, /no failure has the request ID ffffffff-1; failures are known since 2/)
  })
})
