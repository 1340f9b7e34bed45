/** The Containerfile and the compose file, as far as they can be judged without a registry of images. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { packageRoot } from '../../lib/package.ts'
import { attempt, lacking } from '../fixtures/process/command.ts'

const directory = join(packageRoot(), 'packaging/container')
const text = readFileSync(join(directory, 'Containerfile'), 'utf8')

/** Instructions with their continued lines joined, without comments. */
const instructions = text
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll('\\\n', ' ')
  .split('\n')
  .filter(line => line !== '')

interface Service {
  readonly read_only: boolean
  readonly cap_drop: readonly string[]
  readonly security_opt: readonly string[]
  readonly volumes: readonly string[]
  readonly build: { readonly context: string; readonly dockerfile: string; readonly target: string }
}
const compose: { services: Record<string, Service>; volumes: object } = parse(
  readFileSync(join(directory, 'compose.yaml'), 'utf8'),
  { merge: true },
)

t.test('every stage that runs is not root, has a volume, a health check and a program', async t => {
  const stages = text.split(/^(?=FROM )/m).slice(1)
  const runtime = stages.find(stage => / AS runtime$/m.test(stage)) ?? ''
  t.match(runtime, /^USER [1-9]\d+:[1-9]\d+$/m)
  for (const name of ['cachesvc', 'authproxy']) {
    const stage = stages.find(stage => stage.startsWith(`FROM runtime AS ${name}\n`)) ?? ''
    t.match(stage, new RegExp(`^ENTRYPOINT \\["${name}"\\]$`, 'm'))
    t.match(stage, /^VOLUME \/var\//m)
    const [, check = '[]'] = /^HEALTHCHECK .*\\\n *CMD (\[.*\])$/m.exec(stage) ?? []
    const [program, option, script] = JSON.parse(check)
    t.strictSame([program, option], ['node', '-e'])
    t.equal((await attempt(process.execPath, ['--check', '-'], { input: script })).code, 0)
    t.notMatch(stage, /^USER /m)
  }
})

t.test('the image has a Node.js that is new enough', async t => {
  const images = [...text.matchAll(/^FROM docker\.io\/library\/node:(\d+)-/gm)]
  t.equal(images.length, 2)
  for (const [, major] of images) t.ok(Number(major) >= 22)
})

t.test('its shell commands are valid', { skip: lacking('shellcheck') }, async t => {
  for (const line of instructions.filter(line => line.startsWith('RUN '))) {
    const input = `#!/bin/sh\n${line.slice(4)}\n`
    const { code, stdout } = await attempt('shellcheck', ['-'], { input })
    t.equal(code, 0, `${stdout}`)
  }
})

t.test('both services are confined alike', async t => {
  t.strictSame(Object.keys(compose.services), ['cachesvc', 'authproxy'])
  for (const [name, service] of Object.entries(compose.services)) {
    t.equal(service.read_only, true)
    t.strictSame(service.cap_drop, ['ALL'])
    t.strictSame(service.security_opt, ['no-new-privileges:true'])
    t.equal(service.build.target, name)
    t.ok(existsSync(join(directory, service.build.context, service.build.dockerfile)))
    const [volume = '', place = ''] = service.volumes[0]?.split(':') ?? []
    t.ok(Object.hasOwn(compose.volumes, volume))
    t.match(text, `VOLUME ${place}\n`)
  }
})
