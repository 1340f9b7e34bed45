/**
 * `authproxy demo`: identity provider, application and gateway with TLS in one process, for somebody who wants to have logged
 * in within a minute. Everything lives in a temporary directory and goes with the process.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../../auth/config/config.ts'
import { loadConfig } from '../../auth/config/load-config.ts'
import { type Service, type Start, serve } from '../../daemon.ts'
import { createLog, type Log } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { selfSigned } from '../../x509/self-signed.ts'
import { type DemoOptions, demoHelp, readDemoArguments } from '../dev-idp/arguments.ts'
import { peopleOf, peopleTable, startDevIdp } from '../dev-idp/command.ts'
import type { Person } from '../dev-idp/people.ts'
import { createApplication } from './application.ts'
import { createTlsEdge } from './tls-edge.ts'

/** Runs the command with the arguments behind its name. */
export async function demoCommand(argv: readonly string[]): Promise<ExitCode> {
  const read = readDemoArguments(argv, process.cwd())
  if (read.run === 'help') {
    await print(demoHelp)
    return exitCodes.success
  }
  if (read.run === 'usage') {
    await print(`${read.message}\n`, process.stderr)
    return exitCodes.usage
  }
  const people = await peopleOf(read.options.users)
  if (people === undefined) return exitCodes.configuration
  // Until it runs, warnings would only tell what a demonstration is: no TLS towards the identity provider.
  const log = createLog({ level: 'error', to: process.stderr })
  const parts = { options: read.options, people, log }
  return serve({ log, start: start => startDemo(parts, start) })
}

interface Parts {
  readonly options: DemoOptions
  readonly people: readonly Person[]
  readonly log: Log
}

async function startDemo(parts: Parts, start: Start): Promise<Service> {
  const { options, people, log } = parts
  const directory = await mkdtemp(join(tmpdir(), 'authproxy-demo-'))
  const stop: Array<Service['stop'][number]> = []
  const stopping = (name: string, action: () => Promise<unknown>) =>
    stop.unshift({ name, deadline: 3000, stop: async () => void (await action()) })
  stopping('remove the temporary directory', () => rm(directory, { recursive: true, force: true }))
  try {
    const application = createApplication()
    const applicationPort = await listening(application, 0)
    stopping('close the application', async () => application.closeAllConnections())

    let certificate: string | undefined
    const idp = await startDevIdp({
      ...{ profile: options.profile, people, wantSigned: false, hosts: [] },
      listen: { address: '127.0.0.1', port: 0 },
      encryptTo: () => certificate,
      encryptParts: false,
    })
    stop.unshift(...idp.service.stop)

    const inside = await freePort()
    const tls = await throwAwayCertificate()
    const edge = createTlsEdge(tls, inside)
    const port = await listening(edge.server, options.port)
    stopping('close the TLS edge', edge.close)

    const domain = port === 443 ? 'localhost' : `localhost:${port}`
    const settings = {
      domain,
      idpMetadataURL: `${idp.baseUrl}/metadata`,
      configPath: join(directory, 'demo.json'),
      proxy: {
        listenAddress: `127.0.0.1:${inside}`,
        targetURL: `http://127.0.0.1:${applicationPort}`,
      },
      log: { level: 'error', access: false },
    }
    const config = await configOf(join(directory, 'demo.yaml'), settings)
    const { startService } = await import('../../auth/service.ts')
    const gateway = await startService({
      ...{ config, log, start },
      reload: async () => ({ config }),
      modulusLength: 2048,
    })
    stop.unshift(...gateway.stop)
    if (options.encrypt) certificate = await ownCertificate(inside)
    log.setLevel('warn')
    await print(banner({ url: `https://${domain}/`, idp: idp.baseUrl, options, people }))
    return { status: `demonstration at https://${domain}/`, stop, reload: async () => [] }
  } catch (error) {
    for (const step of stop) await step.stop().catch(() => undefined)
    throw error
  }
}

async function configOf(file: string, settings: unknown): Promise<Config> {
  // JSON is YAML.
  await writeFile(file, JSON.stringify(settings, undefined, 2))
  const environment = {}
  const loaded = await loadConfig({ instance: 'demo', file, configDirectory: '', environment })
  if (!loaded.ok) throw new Error(loaded.problems.join('; '))
  return loaded.value
}

function throwAwayCertificate() {
  const hosts = ['localhost', '127.0.0.1']
  return selfSigned({
    ...{ name: 'localhost', now: Date.now(), lifetime: 7 * 86_400_000, hosts },
    ...{ serialNumber: randomBytes(8), modulusLength: 2048 },
  }).then(({ privateKey, certificate }) => ({ key: privateKey, cert: certificate }))
}

/** The certificate the gateway wants assertions encrypted to, as it publishes it. */
function ownCertificate(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path: '/saml/certificate.crt' }, response => {
      let text = ''
      response.on('data', block => {
        text += String(block)
      })
      response.on('end', () => resolve(text))
      response.on('error', reject)
    })
    request.on('error', reject)
  })
}

async function listening(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  const address: AddressInfo | string | null = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  return address.port
}

/** A port that was free a moment ago, for the gateway, whose configuration has to name one. */
async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listening(server, 0)
  await new Promise<void>(closed => server.close(() => closed()))
  return port
}

function banner(of: {
  readonly url: string
  readonly idp: string
  readonly options: DemoOptions
  readonly people: readonly Person[]
}): string {
  const { url, idp, options, people } = of
  return `
  Open       ${url}
             The certificate is made for this run: let the browser go on, or use curl -k.

  People     ${peopleTable(people)}

  Log in at  ${idp}/      a development identity provider that answers the way ${options.profile} does${options.encrypt ? ', encrypted' : ''};
             there you can also have it answer wrongly and see what the gateway says

  Ctrl-C ends everything; nothing is kept.

`
}
