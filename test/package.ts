import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot, packageVersion, projectPage } from '../lib/package.ts'

t.test('the root is where package.json and the templates are', async t => {
  t.ok(existsSync(join(packageRoot(), 'package.json')))
  t.ok(existsSync(join(packageRoot(), 'templates')))
})

t.test('the version is the one in package.json', async t => {
  const manifest: { version: string } = JSON.parse(
    readFileSync(join(packageRoot(), 'package.json'), 'utf8'),
  )
  t.equal(packageVersion(), manifest.version)
  t.match(packageVersion(), /^\d+\.\d+\.\d+/)
})

t.test('the project page is an https URL', async t => {
  t.equal(new URL(projectPage()).protocol, 'https:')
})
