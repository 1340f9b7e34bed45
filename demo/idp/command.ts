/**
 * Runs `authproxy dev-idp`, an identity provider for development.
 */
import { randomBytes, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { Server } from 'node:net'
import { day, systemClock } from '../../lib/async/clock.ts'
import { obey } from '../../lib/command-line.ts'
import { type Service, serve, stopStep } from '../../lib/daemon.ts'
import { attempt, Failure, unreadableReason } from '../../lib/errors.ts'
import { formatAuthority } from '../../lib/http/message/target.ts'
import { cannotListen, type ListenAddress } from '../../lib/http/server/listen.ts'
import { createLog } from '../../lib/log/log.ts'
import { type ExitCode, exitCodes, print } from '../../lib/program.ts'
import { selfSignedCertificate } from '../../lib/x509/x509.ts'
import { checkDevIdp, type DevIdpOptions, devIdp } from './arguments.ts'
import { type Person, people, readPeople } from './people.ts'
import { profiles } from './profile.ts'
import { type DevIdpRules, DevProvider } from './provider.ts'
import { createDevIdpServer, pageMaker } from './server.ts'

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
      const certificate = file === undefined ? undefined : await certificateIn(file)
      const { listen, profile, for: hosts } = options
      const idp = await startDevIdp(listen, {
        profile,
        people,
        hosts,
        wantSigned: options['want-signed'],
        encryptTo: () => certificate,
        encryptParts: options['encrypt-parts'],
      })
      await print(banner(idp.baseUrl, options, people))
      return idp.service
    },
  })
}

/** The certificate in a file. Throws a Failure when assertions cannot be encrypted to it. */
async function certificateIn(file: string): Promise<string> {
  const refuse = (why: string): never => {
    const sentence = `assertions cannot be encrypted to ${file}: ${why}`
    throw new Failure(sentence, { code: 'unusable-certificate' })
  }
  const text = await readFile(file, 'utf8').catch(error => refuse(unreadableReason(error)))
  const type = keyTypeOf(text)
  if (type === undefined) return refuse('it is not a certificate in PEM form')
  return type === 'rsa' ? text : refuse('its key is not RSA')
}

function keyTypeOf(certificate: string): string | undefined {
  return attempt(() => new X509Certificate(certificate).publicKey.asymmetricKeyType)
}

/** The people of a file, or the built-in ones. Undefined when the file has problems, which have then been printed. */
export async function peopleOf(file: string | undefined): Promise<readonly Person[] | undefined> {
  if (file === undefined) return people
  const loaded = await readPeople(file)
  if (loaded.ok) return loaded.value
  for (const problem of loaded.problems) await print(`authproxy: ${problem}\n`, process.stderr)
  return undefined
}

/**
 * Starts the provider on a loopback address; port 0 means any free port, and `option` names the option for another. Answers the
 * origin, such as `http://127.0.0.1:8989`.
 */
export async function startDevIdp(
  {
    address = '127.0.0.1',
    port: wanted,
    option = '--listen',
  }: ListenAddress & { readonly option?: string },
  rules: DevIdpRules,
) {
  let provider: DevProvider | undefined
  // The server comes first: the addresses in the metadata need its port.
  const server = createDevIdpServer(() => provider)
  const port = await startListening(server, { address, port: wanted }, option)
  const baseUrl = `http://${formatAuthority({ host: address, port })}`
  const [key, strangerKey] = await Promise.all([makeKey('dev-idp'), makeKey('stranger')])
  provider = new DevProvider({
    ...rules,
    baseUrl,
    key,
    strangerKey,
    page: pageMaker(randomBytes),
    clock: systemClock,
    random: randomBytes,
  })
  const close = stopStep('close the identity provider', 1000, async () => {
    server.closeAllConnections()
    await new Promise<void>(closed => server.close(() => closed()))
  })
  const status = `development identity provider at ${baseUrl}`
  const service: Service = { status, stop: [close], reload: async () => [] }
  return { baseUrl, service }
}

function makeKey(name: string) {
  return selfSignedCertificate({
    name,
    now: systemClock.now(),
    lifetime: 400 * day,
    modulusLength: 2048,
  })
}

/** Listens, and answers the port. Throws a Failure with the reason and the option for another port when that fails. */
export async function startListening(
  server: Server,
  place: ListenAddress,
  option: string,
): Promise<number> {
  try {
    server.listen(place.port, place.address)
    await once(server, 'listening')
  } catch (cause) {
    throw cannotListen(
      cause,
      place,
      `another process listens there; name another port with ${option}`,
    )
  }
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not listening')
  return address.port
}

function banner(baseUrl: string, { profile }: DevIdpOptions, people: readonly Person[]): string {
  const { recipe, settings } = profiles[profile]
  const { nameIDFormat } = settings.saml ?? {}
  const settingsLine =
    nameIDFormat === undefined ? '' : `  Needs      saml.nameIDFormat: ${nameIDFormat}\n`
  return `
  ${'*'.repeat(74)}
  *  DEVELOPMENT identity provider: one click signs in as any user.        *
  *  It answers only on this machine; never put it in front of real users. *
  ${'*'.repeat(74)}

  Metadata   ${baseUrl}/metadata      (idpMetadataURL of a gateway)
  Answers    the way ${profile} does (docs/recipes/${recipe}.md)
${settingsLine}  People     ${peopleTable(people)}

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
