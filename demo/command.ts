/**
 * Runs `authproxy demo`, an identity provider, an application and a gateway with TLS in one process.
 * All files are in a temporary directory, which is removed at the end.
 */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type TLSSocket } from 'node:tls'
import { isatty } from 'node:tty'
import { day, systemClock } from '../lib/async/clock.ts'
import type { Config } from '../lib/auth/config/config.ts'
import { loadConfig } from '../lib/auth/config/loading/load-config.ts'
import { startService } from '../lib/auth/service.ts'
import { obey } from '../lib/command-line.ts'
import { type Service, type Start, type StopStep, serve, stopStep } from '../lib/daemon.ts'
import { createLog, type Log } from '../lib/log/log.ts'
import { type ExitCode, exitCodes, print } from '../lib/program.ts'
import { selfSignedCertificate } from '../lib/x509/x509.ts'
import { createApplication } from './application.ts'
import { type DemoOptions, demo } from './idp/arguments.ts'
import { peopleOf, peopleTable, startDevIdp, startListening } from './idp/command.ts'
import type { Person } from './idp/people.ts'
import { profiles } from './idp/profile.ts'

/** Runs the command with the arguments behind its name. */
export function demoCommand(argv: readonly string[]): Promise<ExitCode> {
  return obey(demo, argv, ({ options }) => serveDemo(options))
}

async function serveDemo(options: DemoOptions): Promise<ExitCode> {
  const people = await peopleOf(options.users)
  if (people === undefined) return exitCodes.configuration
  // Warnings of the start are expected in a demonstration, such as an identity provider without TLS.
  const form = isatty(2) ? 'plain' : 'json'
  const log = createLog({ level: 'error', to: process.stderr, form })
  return serve({ log, start: start => startDemo({ ...options, people, log }, start) })
}

type Demo = Omit<DemoOptions, 'users'> & { readonly people: readonly Person[]; readonly log: Log }

async function startDemo(settings: Demo, start: Start): Promise<Service> {
  const { profile, people, log } = settings
  const directory = await mkdtemp(join(tmpdir(), 'authproxy-demo-'))
  const stop: StopStep[] = []
  const stopping = (name: string, act: () => Promise<unknown>) =>
    stop.unshift(stopStep(name, 2000, act))
  stopping('remove the temporary directory', () => rm(directory, { recursive: true, force: true }))
  try {
    const application = createApplication()
    const anyPort = { address: '127.0.0.1', port: 0 }
    const applicationPort = await startListening(application, anyPort, '--port')
    stopping('close the application', async () => application.closeAllConnections())

    let certificate: string | undefined
    // The port is fixed beside the public one, so that bookmarks and packet filters stay valid.
    const { port: wanted } = settings
    const idpPort = wanted === 0 || wanted === 65_535 ? 0 : wanted + 1
    const idp = await startDevIdp(
      { ...anyPort, port: idpPort, option: '--port' },
      {
        profile,
        people,
        wantSigned: false,
        hosts: [],
        encryptTo: () => certificate,
        encryptParts: false,
      },
    )
    stop.unshift(...idp.service.stop)

    // The edge comes first: the gateway has to know the public port.
    let inside = 0
    const edge = await createTlsEdge(() => inside)
    const port = await startListening(edge.server, { ...anyPort, port: settings.port }, '--port')
    stopping('close the TLS edge', edge.close)

    const domain = port === 443 ? 'localhost' : `localhost:${port}`
    const file = join(directory, 'demo.yaml')
    const config = await configOf(file, {
      domain,
      idpMetadataURL: `${idp.baseUrl}/metadata`,
      configPath: join(directory, 'demo.json'),
      proxy: { listenAddress: '127.0.0.1:0', targetURL: `http://127.0.0.1:${applicationPort}` },
      log: { level: 'error', access: false },
      access: rules,
      ...profiles[profile].settings,
    })
    const reload = async () => ({ config })
    const gateway = await startService({
      config,
      log,
      start,
      reload,
      makePair: wanted => selfSignedCertificate({ ...wanted, modulusLength: 2048 }),
      explainCommand: reference => `authproxy explain ${reference} --config ${file}`,
    })
    stop.unshift(...gateway.stop)
    inside = gateway.port
    if (settings.encrypt) {
      // The gateway publishes the certificate for encrypted assertions.
      const published = await fetch(`http://127.0.0.1:${inside}/saml/certificate.crt`)
      certificate = await published.text()
    }
    log.setLevel('warn')
    await print(banner(`https://${domain}/`, idp.baseUrl, settings))
    return { status: `demonstration at https://${domain}/`, stop, reload: async () => [] }
  } catch (error) {
    for (const step of stop) await step.stop().catch(() => undefined)
    throw error
  }
}

/** One part of the application is for one group, so that a visitor can see the page of a refusal. */
const rules = [
  {
    path: '/engineering/',
    allow: [{ groups: 'engineering' }],
    message: 'These pages are for the group "engineering". Sign in as ada, who is in it.',
  },
  { path: '/', allow: 'signed-in' },
]

async function configOf(file: string, settings: unknown): Promise<Config> {
  // JSON is YAML.
  await writeFile(file, JSON.stringify(settings, undefined, 2))
  const environment = {}
  const loaded = await loadConfig({ instance: 'demo', file, configDirectory: '', environment })
  if (!loaded.ok) throw new Error(loaded.problems.join('; '))
  return loaded.value
}

/**
 * A TLS edge in front of the port `to()` on 127.0.0.1, not listening yet, with a certificate made for it; it decrypts and forwards
 * the bytes unchanged. `close` stops listening and ends every connection. A real edge also preserves Host and overwrites
 * X-Forwarded-Proto; here no other proxy stands in front.
 */
async function createTlsEdge(to: () => number) {
  const { privateKey: key, certificate: cert } = await selfSignedCertificate({
    name: 'localhost',
    hosts: ['localhost', '127.0.0.1'],
    modulusLength: 2048,
    now: systemClock.now(),
    lifetime: 7 * day,
  })
  const open = new Set<TLSSocket>()
  const server = createServer({ key, cert, ALPNProtocols: ['http/1.1'] }, outside => {
    open.add(outside)
    outside.on('close', () => open.delete(outside))
    const inside = connect(to(), '127.0.0.1')
    outside.pipe(inside).pipe(outside)
    // When one side ends or fails, both are closed, and nothing is logged.
    outside.on('error', () => outside.destroy()).on('close', () => inside.destroy())
    inside.on('error', () => inside.destroy()).on('close', () => outside.end())
  })
  // Browsers break off the handshake when they do not know the certificate: that is expected here.
  server.on('tlsClientError', () => undefined)
  return {
    server,
    close: () =>
      new Promise<void>(closed => {
        server.close(() => closed())
        for (const socket of open) socket.destroy()
      }),
  }
}

function banner(url: string, idp: string, { people, profile, encrypt }: Demo): string {
  const encrypted = encrypt ? ', encrypted' : ''
  return `
  Open       ${url}
             The certificate is made for this run: let the browser go on.

  People     ${peopleTable(people)}

  Identity provider  ${idp}/
             You are sent there to log in. It answers the way ${profile} does${encrypted};
             it can also answer wrongly, so that you see what the gateway says.

  Ctrl-C ends everything; nothing is kept.

`
}
