/**
 * `authproxy dev-idp`: an identity provider for development, until it is told to stop.
 */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../../async/clock.ts'
import { obey } from '../../command-line.ts'
import { type Service, serve } from '../../daemon.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { createLog } from '../../log/log.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { selfSigned } from '../../x509/self-signed.ts'
import { checkDevIdp, type DevIdpOptions, devIdp } from './arguments.ts'
import { cast, type Person, readPeople } from './people.ts'
import { type ProfileName, profiles } from './profile.ts'
import { DevProvider } from './provider.ts'
import { createDevIdpServer } from './server.ts'

/** Runs the command with the arguments behind its name. */
export function devIdpCommand(argv: readonly string[]): Promise<ExitCode> {
  return obey(devIdp, argv, ({ options }) => serveDevIdp(options))
}

async function serveDevIdp(options: DevIdpOptions): Promise<ExitCode> {
  checkDevIdp(options)
  const people = await peopleOf(options.users)
  if (people === undefined) return exitCodes.configuration
  return serve({
    log: createLog({ level: 'warn', to: process.stderr }),
    start: async () => {
      const file = options['encrypt-to']
      const certificate = file === undefined ? undefined : await readFile(file, 'utf8')
      const idp = await startDevIdp({
        ...{ listen: options.listen, profile: options.profile, people, hosts: options.for },
        encryptTo: () => certificate,
        encryptParts: options['encrypt-parts'],
        wantSigned: options['want-signed'],
      })
      await print(banner(idp.baseUrl, options, people))
      return idp.service
    },
  })
}

/** The people of a file, or the cast. Undefined when the file is wrong: what is wrong has been printed. */
export async function peopleOf(file: string | undefined): Promise<readonly Person[] | undefined> {
  if (file === undefined) return cast
  const loaded = await readPeople(file)
  if (loaded.ok) return loaded.value
  for (const problem of loaded.problems) await print(`authproxy: ${problem}\n`, process.stderr)
  return undefined
}

export interface StartedDevIdp {
  /** Its origin: `http://127.0.0.1:8989`. */
  readonly baseUrl: string
  readonly service: Service
}

/** Starts it on a loopback address; port 0 is any. */
export async function startDevIdp(options: {
  readonly listen: ListenAddress
  readonly profile: ProfileName
  readonly people: readonly Person[]
  /** The certificate to encrypt to, asked for at every answer. */
  readonly encryptTo: () => string | undefined
  /** Whether the name and every attribute are encrypted instead of the whole assertion. */
  readonly encryptParts: boolean
  readonly wantSigned: boolean
  readonly hosts: readonly string[]
}): Promise<StartedDevIdp> {
  const { listen, profile, people, wantSigned, hosts, encryptTo, encryptParts } = options
  const [key, strangerKey] = await Promise.all([makeKey('dev-idp'), makeKey('stranger')])
  let provider: DevProvider | undefined
  // The server comes first: the addresses the provider hands out hold its port.
  const server = createDevIdpServer(() => provider)
  const baseUrl = await listening(server, listen.port, listen.address ?? '127.0.0.1')
  provider = new DevProvider({
    ...{
      baseUrl,
      profile: profiles[profile],
      people,
      key,
      strangerKey,
      encryptTo,
      encryptParts,
      hosts,
      wantSigned,
    },
    clock: systemClock,
    random: randomBytes,
  })
  const stop = async () => {
    server.closeAllConnections()
    await new Promise<void>(closed => server.close(() => closed()))
  }
  const service: Service = {
    status: `development identity provider at ${baseUrl}`,
    stop: [{ name: 'close the identity provider', deadline: 2000, stop }],
    reload: async () => [],
  }
  return { baseUrl, service }
}

function makeKey(name: string) {
  return selfSigned({
    name,
    now: Date.now(),
    lifetime: 400 * 86_400_000,
    serialNumber: randomBytes(8),
    modulusLength: 2048,
  })
}

async function listening(server: Server, port: number, host: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const address: AddressInfo | string | null = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`
}

function banner(baseUrl: string, { profile }: DevIdpOptions, people: readonly Person[]): string {
  return `
  ${'*'.repeat(74)}
  *  DEVELOPMENT identity provider. Anybody who reaches it can be anybody.   *
  *  It answers on this machine alone; never put it before real users.       *
  ${'*'.repeat(74)}

  Metadata   ${baseUrl}/metadata      (idpMetadataURL of a gateway)
  Answers    the way ${profile} does
  People     ${peopleTable(people)}

`
}

/** Names and passwords, one a line. */
export function peopleTable(people: readonly Person[]): string {
  const shown = people.slice(0, 12)
  const width = (of: (person: Person) => string) => Math.max(...shown.map(p => of(p).length))
  const names = width(({ name }) => name)
  const passwords = width(({ password }) => password)
  const lines = shown.map(
    ({ name, password, about }) =>
      `${name.padEnd(names)}  password ${password.padEnd(passwords)}  ${about}`,
  )
  if (people.length > shown.length) lines.push(`and ${people.length - shown.length} more`)
  return lines.join('\n             ')
}
