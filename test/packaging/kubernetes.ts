/**
 * The manifests for Kubernetes: kubectl knows every field of theirs, their parts fit each other and the image, and an instance with the
 * configuration in them starts and answers the probes.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { configCheck } from '../../lib/auth/config/loading/load-config.ts'
import { configCheck as cachesvcCheck } from '../../lib/cache/config/loading/load-config.ts'
import { decodeConfig } from '../../lib/config/config-file.ts'
import { isRecord } from '../../lib/json.ts'
import { packageRoot } from '../../lib/package.ts'
import { AuthproxyProcess, startable } from '../fixtures/gateway/authproxy-process.ts'
import { attempt, command, lacking } from '../fixtures/process/command.ts'

t.setTimeout(300_000)

const folder = join(packageRoot(), 'packaging/kubernetes')
const image = await readFile(join(packageRoot(), 'packaging/container/Containerfile'), 'utf8')

interface Manifest {
  readonly kind: string
  /** As it stands in the file, without its comments. */
  readonly all: unknown
}

async function manifestsIn(name: string): Promise<readonly Manifest[]> {
  const text = await readFile(join(folder, `${name}.yaml`), 'utf8')
  return parseAllDocuments(text).map(document => {
    const all: unknown = document.toJS()
    return { kind: String(valueAt(all, 'kind')), all }
  })
}

/** The value of a path such as `spec.template.0`. */
function valueAt(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((at, key) => {
    if (Array.isArray(at)) return at[Number(key)]
    return isRecord(at) ? at[key] : undefined
  }, value)
}

function ofKind(manifests: readonly Manifest[], kind: string): unknown {
  return manifests.find(manifest => manifest.kind === kind)?.all
}

/** Paths of all values of a tree, with what stands there. */
function leaves(value: unknown, path = ''): ReadonlyArray<readonly [path: string, value: unknown]> {
  if (Array.isArray(value)) return value.flatMap((one, index) => leaves(one, `${path}.${index}`))
  if (!isRecord(value)) return [[path, value]]
  return Object.entries(value).flatMap(([key, one]) => leaves(one, `${path}.${key}`))
}

/** What kubectl reads of a manifest into its types, and writes again: a field it does not know is not there. */
async function asKubectlReads(manifest: Manifest): Promise<unknown> {
  const act: Readonly<Record<string, readonly string[]>> = {
    StatefulSet: ['set', 'serviceaccount', 'default'],
    Service: ['set', 'selector', 'read=by-kubectl'],
  }
  const input = JSON.stringify(manifest.all)
  const argv = [...(act[manifest.kind] ?? []), '--local', '-f', '-', '-o', 'json']
  return JSON.parse((await command('kubectl', argv, { input })).toString())
}

for (const name of ['authproxy', 'cachesvc']) {
  const manifests = await manifestsIn(name)
  const set = ofKind(manifests, 'StatefulSet')
  const pod = (path: string) => valueAt(set, `spec.template.spec.${path}`)
  const [, stage = ''] = image.split(`\nFROM runtime AS ${name}\n`)

  t.test(`${name}: kubectl knows every field`, { skip: lacking('kubectl') }, async t => {
    for (const manifest of manifests) {
      if (manifest.kind !== 'StatefulSet' && manifest.kind !== 'Service') continue
      const read = await asKubectlReads(manifest)
      for (const [path, value] of leaves(manifest.all)) {
        if (manifest.kind === 'Service' && path.startsWith('.spec.selector')) continue
        t.strictSame(valueAt(read, path.slice(1)), value, `${manifest.kind}${path}`)
      }
    }
  })

  t.test(`${name}: the parts fit each other and the image`, async t => {
    const kinds = manifests.map(({ kind }) => kind)
    t.equal(valueAt(set, 'spec.replicas'), 1)
    const [, user] = /^USER (\d+):\1$/m.exec(image) ?? []
    t.strictSame(
      ['runAsUser', 'runAsGroup', 'fsGroup'].map(key => String(pod(`securityContext.${key}`))),
      [user, user, user],
    )
    t.equal(pod('enableServiceLinks'), false)
    t.equal(pod('containers.0.securityContext.readOnlyRootFilesystem'), true)

    const [, volume = ''] = /^VOLUME (\S+)$/m.exec(stage) ?? []
    const mounts = pod('containers.0.volumeMounts')
    if (!Array.isArray(mounts)) throw new Error('no mounts')
    const claims = valueAt(set, 'spec.volumeClaimTemplates.0.metadata.name')
    t.ok(
      mounts.some(mount => mount.mountPath === volume && mount.name === claims),
      volume,
    )
    const volumes = pod('volumes')
    const held = [claims, ...(Array.isArray(volumes) ? volumes.map(({ name }) => name) : [])]
    for (const mount of mounts) t.ok(held.includes(mount.name), mount.name)

    const labels = valueAt(set, 'spec.template.metadata.labels')
    t.strictSame(valueAt(set, 'spec.selector.matchLabels'), labels)
    const service = ofKind(manifests, 'Service')
    t.strictSame(valueAt(service, 'spec.selector'), labels)
    t.notMatch(valueAt(service, 'metadata.name'), /^(?:authproxy|cachesvc)/)
    const ports = pod('containers.0.ports')
    const named = new Map(
      Array.isArray(ports) ? ports.map(port => [port.name, port.containerPort]) : [],
    )
    t.ok(named.has(valueAt(service, 'spec.ports.0.targetPort')))
    t.equal(String(named.get('http')), /^EXPOSE (\d+)$/m.exec(stage)?.[1])
    t.ok(kinds.includes('ConfigMap'))
    const route = ofKind(manifests, 'HTTPRoute')
    if (route === undefined) return
    t.strictSame(valueAt(route, 'spec.rules.0.backendRefs.0'), {
      name: valueAt(service, 'metadata.name'),
      port: valueAt(service, 'spec.ports.0.port'),
    })
    t.equal(valueAt(route, 'spec.rules.0.timeouts.request'), '0s', 'WebSockets last')
  })
}

/** The configuration in the ConfigMap of a service. */
async function configurationOf(name: string, file: string): Promise<string> {
  const map = ofKind(await manifestsIn(name), 'ConfigMap')
  const data = valueAt(map, 'data')
  return isRecord(data) ? String(data[file]) : ''
}

t.test('cachesvc: the configuration is taken, without a warning', async t => {
  const text = await configurationOf('cachesvc', 'cachesvc.yaml')
  const machine = { environment: {}, root: false, home: undefined, systemCacheWritable: true }
  const overrides = { cacheDirectory: '/var/cache/cachesvc' }
  t.match(decodeConfig(text, 'cachesvc.yaml', cachesvcCheck(overrides, machine)), {
    ok: true,
    warnings: [],
  })
})

t.test('authproxy: an instance starts with the configuration, and answers the probes', async t => {
  const manifests = await manifestsIn('authproxy')
  const text = await configurationOf('authproxy', 'default.yaml')
  const { directory, settings, adminPort } = await startable(t)
  const secrets = join(directory, 'secrets')
  await mkdir(secrets)
  const data = valueAt(ofKind(manifests, 'Secret'), 'stringData')
  for (const [key, value] of Object.entries(isRecord(data) ? data : {})) {
    await writeFile(join(secrets, key), String(value), { mode: 0o440 })
  }
  const here = text
    .replace('/etc/authproxy/secrets', secrets)
    .replace(/^idpMetadataURL: .*$/m, `idpMetadataFile: ${settings.idpMetadataFile}`)
  const found = decodeConfig(here, 'default.yaml', configCheck('default'))
  t.match(found, { ok: true, warnings: [] })
  const own = here
    .replace('0.0.0.0:8080', settings.proxy.listenAddress)
    .replace('0.0.0.0:9080', settings.admin.listenAddress)
  const process = await AuthproxyProcess.start(t, {
    directory,
    settings: `${own}configPath: ${settings.configPath}\n`,
  })
  await process.until('ready')
  await answersProbes(t, ofKind(manifests, 'StatefulSet'), adminPort)
  t.equal(await process.stop(), 0)
})

async function answersProbes(t: Test, set: unknown, port: number): Promise<void> {
  for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    const probe = valueAt(set, `spec.template.spec.containers.0.${name}.httpGet`)
    t.equal(valueAt(probe, 'port'), 'admin')
    const path = String(valueAt(probe, 'path'))
    // A kubelet names the address of the pod.
    const answer = await fetch(`http://127.0.0.1:${port}${path}`)
    t.equal(answer.status, 200, `${name} ${path}`)
  }
}

t.test('kubectl makes the same Secret', { skip: lacking('kubectl') }, async t => {
  const secret = ofKind(await manifestsIn('authproxy'), 'Secret')
  const [[key = '', value] = []] = Object.entries(Object(valueAt(secret, 'stringData')))
  const made = await attempt('kubectl', [
    ...['create', 'secret', 'generic', 'sign-on', `--from-literal=${key}=${value}`],
    ...['--dry-run=client', '-o', 'json'],
  ])
  const { metadata, kind, data } = JSON.parse(made.stdout.toString())
  t.match(
    { metadata, kind },
    { kind: 'Secret', metadata: { name: valueAt(secret, 'metadata.name') } },
  )
  t.equal(Buffer.from(data[key], 'base64').toString(), value)
})
