import t from 'tap'
import { people, readPeople } from '../../../demo/idp/people.ts'

t.test('the cast has one of each kind, and different names', async t => {
  t.equal(new Set(people.map(({ name }) => name)).size, people.length)
  t.ok(people.some(({ email }) => email !== undefined))
  t.ok(
    people.some(({ email, sAMAccountName }) => email === undefined && sAMAccountName !== undefined),
  )
  t.ok(
    people.some(({ email, sAMAccountName }) => email === undefined && sAMAccountName === undefined),
  )
  t.ok(people.some(({ groups = [] }) => groups.length === 300))
})

t.test('a file of people is read; a password that is missing is the name', async t => {
  const directory = t.testdir({
    'people.yaml': `
users:
  - name: eve
    email: eve@example.org
    groups: [staff, "a, b"]
  - name: frank
    password: secret
    sAMAccountName: frank01
`,
  })
  const loaded = await readPeople(`${directory}/people.yaml`)
  t.ok(loaded.ok)
  t.match(loaded.ok && loaded.value, [
    {
      name: 'eve',
      password: 'eve',
      about: 'eve@example.org',
      email: 'eve@example.org',
      groups: ['staff', 'a, b'],
    },
    { name: 'frank', password: 'secret', about: 'no e-mail', email: undefined, groups: undefined },
  ])
})

t.test('what is wrong in the file is told with its line, all at once', async t => {
  const directory = t.testdir({
    'people.yaml': 'users:\n  - name: eve\n    mail: x\n    groups: staff\n  - email: y\n  - 7\n',
    'empty.yaml': 'users: []\n',
  })
  const loaded = await readPeople(`${directory}/people.yaml`)
  const problems = loaded.ok ? [] : loaded.problems
  t.match(problems, [
    /people\.yaml:3:\d+: users\[0\]\.mail: no such setting; did you mean email\?/,
    /people\.yaml:4:\d+: users\[0\]\.groups: found "staff", expected a list/,
    /people\.yaml:5:\d+: users\[1\]\.name not set: write "- name: ada"/,
    /people\.yaml:6:\d+: users\[2\]: found 7, expected settings of the form/,
  ])
  t.notOk((await readPeople(`${directory}/empty.yaml`)).ok)
  t.notOk((await readPeople(`${directory}/absent.yaml`)).ok)
})
