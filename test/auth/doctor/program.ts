/** `authproxy doctor` as people run it: what it prints, and what it ends with. */
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { type Patient, startPatient } from '../../fixtures/gateway/patient.ts'
import { reply } from '../../fixtures/http/scripted-origin.ts'
import { attempt } from '../../fixtures/process/command.ts'

const program = join(import.meta.dirname, '../../../bin/authproxy.js')

async function doctor(patient: Patient, ...args: readonly string[]) {
  const env = { NODE_EXTRA_CA_CERTS: patient.authorities }
  const argv = [program, 'doctor', '-c', patient.file, ...args]
  const { code, stdout, stderr } = await attempt(process.execPath, argv, { env })
  return { code, out: stdout.toString(), stderr }
}

t.test('a healthy instance: every line is ok, and so is the exit code', async t => {
  const patient = await startPatient(t, { host: 'localhost' })
  const { code, out, stderr } = await doctor(patient, '--groups', '40')
  t.equal(stderr, '')
  t.equal(code, 0, out)
  const lines = out.trimEnd().split('\n')
  t.equal(lines.at(-1), `Nothing is wrong: ${lines.length - 2} checks.`)
  t.equal(lines.at(-2), '')
  for (const line of lines.slice(0, -2)) t.match(line, /^ok {5}[a-zA-Z]/)
  t.match(out, /^ok {5}loop: http:\/\/127\.0\.0\.1:\d+\/ does not lead back here$/m)
  t.match(out, /^ok {5}public host: https:\/\/localhost:\d+\/saml\/metadata\.xml leads here$/m)
  t.match(out, /^ok {5}session size: with 40 groups \d+ bytes of cookies in 1$/m)
})

t.test('what is doubtful does not fail, what is wrong does, each with its mend', async t => {
  const patient = await startPatient(t, { host: 'localhost' })
  patient.backend.at('/', reply({ status: 503 }))
  const doubt = await doctor(patient)
  t.equal(doubt.code, 0)
  t.match(doubt.out, /^doubt {2}backend: .* answers 503\n {7}see the log of the application$/m)
  t.match(doubt.out, /^ok {5}session size: with 150 groups /m)
  t.match(doubt.out, /\n\n0 wrong, 1 doubtful, \d+ right\.\n$/)
  patient.edge.ways = { host: 'inside.example.org', forwardedFor: 'append' }
  const bad = await doctor(patient)
  t.equal(bad.code, 1)
  t.match(bad.out, /^WRONG {2}Host through the edge: inside\.example\.org arrives/m)
  t.match(bad.out, /^ {7}.*proxy_set_header Host \$http_host/m)
  t.match(bad.out, /\n\n2 wrong, 1 doubtful, \d+ right\.\n$/)
  t.notMatch(bad.out, /"key"|PRIVATE KEY|eyJ/, 'no secret is printed')
})

t.test('a service that does not run is the first thing that is wrong', async t => {
  const patient = await startPatient(t, { host: 'localhost' })
  await patient.gateway.stop()
  const { code, out } = await doctor(patient)
  t.equal(code, 1)
  t.match(
    out,
    /^WRONG {2}service: no answer from .*\n {7}start it: systemctl start authproxy@test/m,
  )
  t.match(out, /^WRONG {2}public host: .* answers 502: the edge does not reach the service$/m)
  t.match(out, /^- {6}WebSockets through the edge: does the request to open one arrive\?$/m)
  t.match(out, /^ok {5}IdP metadata: /m, 'the rest is examined all the same')
  t.match(out, /\n\n\d wrong, \d doubtful, \d+ right, \d+ not asked\.\n$/)
})

t.test('a configuration with warnings is examined, one with problems is not', async t => {
  const patient = await startPatient(t, { host: 'localhost' })
  const settings = JSON.parse(await readFile(patient.file, 'utf8'))
  await writeFile(patient.file, JSON.stringify({ ...settings, saml: { allowSHA1: true } }))
  const { out, stderr } = await doctor(patient)
  t.match(out, /^doubt {2}configuration: .*allowSHA1: signatures over SHA-1 can be forged$/m)
  t.match(out, /^doubt {2}configuration in force: .*another configuration/m)
  t.equal(stderr, '', 'and is told once')
  await writeFile(patient.file, JSON.stringify({ ...settings, domain: undefined }))
  const broken = await doctor(patient)
  t.equal(broken.code, 78)
  t.equal(broken.out, '')
  t.match(broken.stderr, /failed to load configuration[\s\S]*domain not set/)
})

t.test(
  'a user who may not read the configuration is told by whom to run it',
  { skip: process.geteuid?.() !== 0 && 'root alone can become another user' },
  async t => {
    const patient = await startPatient(t, { host: 'localhost' })
    await chmod(patient.file, 0o640)
    const doctor = [process.execPath, program, 'doctor', '-c', patient.file]
    const stranger = ['--reuid=65534', '--regid=65534', '--clear-groups', ...doctor]
    const { code, stderr } = await attempt('setpriv', stranger)
    t.equal(code, 78)
    t.match(stderr, /may not read it; run the command as the user of the service \(sudo -u USER/)
  },
)
