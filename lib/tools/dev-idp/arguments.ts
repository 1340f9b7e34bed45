/**
 * The command lines of `authproxy dev-idp` and `authproxy demo`: what is asked for, or in one sentence what is wrong with it.
 */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readListenAddress } from '../../config/address-kinds.ts'
import { nearest } from '../../config/reading.ts'
import type { ListenAddress } from '../../http/server/listen.ts'
import { type ProfileName, profiles } from './profile.ts'

export interface DevIdpOptions {
  readonly listen: ListenAddress
  readonly profile: ProfileName
  /** File of people; the cast when undefined. */
  readonly users: string | undefined
  /** PEM file with the certificate assertions are encrypted to. */
  readonly encryptTo: string | undefined
  /** Whether the name and every attribute are encrypted instead of the whole assertion. */
  readonly encryptParts: boolean
  readonly wantSigned: boolean
  readonly hosts: readonly string[]
}

export interface DemoOptions {
  /** The public port, of TLS. */
  readonly port: number
  readonly profile: ProfileName
  readonly users: string | undefined
  readonly encrypt: boolean
}

export type Read<T> =
  | { readonly run: 'it'; readonly options: T }
  | { readonly run: 'help' }
  | { readonly run: 'usage'; readonly message: string }

const profileNames = Object.keys(profiles)

export const devIdpHelp = `Usage: authproxy dev-idp [OPTION]...

A SAML identity provider for trying and testing. Anybody can be anybody there:
it is bound to loopback addresses and must never stand before real users.

  --listen ADDRESS:PORT   where to listen (127.0.0.1:8989)
  --profile NAME          whose way of answering: ${profileNames.slice(0, 3).join(', ')},
                          ${profileNames.slice(3).join(', ')} (entra)
  --users FILE            YAML with people: users: [{ name, password, email,
                          displayName, givenName, surname, sAMAccountName,
                          groups }]
  --encrypt-to FILE       encrypt assertions to this certificate; a gateway
                          serves its own at /saml/certificate.crt
  --encrypt-parts         encrypt the name and every attribute on its own, and
                          not the assertion
  --want-signed           say in the metadata that requests are to be signed
  --for HOST              also serve a gateway on HOST; may be repeated
  -h, --help              print this
`

export const demoHelp = `Usage: authproxy demo [OPTION]...

A gateway, an identity provider and an application to try, in one command, with
TLS and a throw-away certificate. Nothing is kept.

  --port PORT             the public port (8443)
  --profile NAME          whose way of answering: ${profileNames.slice(0, 3).join(', ')},
                          ${profileNames.slice(3).join(', ')} (entra)
  --users FILE            people, as for authproxy dev-idp
  --encrypt               encrypt assertions
  -h, --help              print this
`

/** Reads the arguments behind `dev-idp`. */
export function readDevIdpArguments(
  argv: readonly string[],
  directory: string,
): Read<DevIdpOptions> {
  const read = readOptions(argv, {
    listen: { type: 'string', default: '127.0.0.1:8989' },
    profile: { type: 'string', default: 'entra' },
    users: { type: 'string' },
    'encrypt-to': { type: 'string' },
    'encrypt-parts': { type: 'boolean' },
    'want-signed': { type: 'boolean' },
    for: { type: 'string', multiple: true },
    help: { type: 'boolean', short: 'h' },
  })
  if (typeof read === 'string') return usage('dev-idp', read)
  if (read['help'] === true) return { run: 'help' }
  const profile = readProfile(read['profile'])
  if (profile === undefined) return usage('dev-idp', unknownProfile(read['profile']))
  const listen = readListenAddress(read['listen'])
  if (!listen.ok) return usage('dev-idp', `--listen: ${listen.problem}`)
  const { address } = listen.value
  if (address === undefined || !(address === '::1' || /^127\./.test(address))) {
    return usage(
      'dev-idp',
      '--listen: only loopback addresses, such as 127.0.0.1:8989; whoever reaches this service can be anybody',
    )
  }
  if (read['encrypt-parts'] === true && read['encrypt-to'] === undefined) {
    return usage('dev-idp', '--encrypt-parts: to whom? It needs --encrypt-to FILE')
  }
  const hosts = read['for']
  return {
    run: 'it',
    options: {
      listen: listen.value,
      profile,
      users: fileOf(read['users'], directory),
      encryptTo: fileOf(read['encrypt-to'], directory),
      encryptParts: read['encrypt-parts'] === true,
      wantSigned: read['want-signed'] === true,
      hosts: Array.isArray(hosts) ? hosts.map(String) : [],
    },
  }
}

/** Reads the arguments behind `demo`. */
export function readDemoArguments(argv: readonly string[], directory: string): Read<DemoOptions> {
  const read = readOptions(argv, {
    port: { type: 'string', default: '8443' },
    profile: { type: 'string', default: 'entra' },
    users: { type: 'string' },
    encrypt: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  })
  if (typeof read === 'string') return usage('demo', read)
  if (read['help'] === true) return { run: 'help' }
  const profile = readProfile(read['profile'])
  if (profile === undefined) return usage('demo', unknownProfile(read['profile']))
  const port = /^\d{1,5}$/.test(String(read['port'])) ? Number(read['port']) : 65_536
  if (port > 65_535)
    return usage('demo', `--port: found ${read['port']}, expected a port such as 8443`)
  const users = fileOf(read['users'], directory)
  return { run: 'it', options: { port, profile, users, encrypt: read['encrypt'] === true } }
}

type Known = NonNullable<Parameters<typeof parseArgs>[0]>['options']

function readOptions(argv: readonly string[], options: NonNullable<Known>) {
  try {
    return parseArgs({ args: [...argv], options, strict: true, allowPositionals: false }).values
  } catch (error) {
    const [found = ''] = argv.filter(word => word.startsWith('--'))
    const near = nearest(
      found,
      Object.keys(options).map(name => `--${name}`),
    )
    const said = error instanceof Error ? (error.message.split('. ')[0] ?? '') : String(error)
    return near === undefined || near === found ? said : `${said}; did you mean ${near}?`
  }
}

function readProfile(found: unknown): ProfileName | undefined {
  return typeof found === 'string' && isProfile(found) ? found : undefined
}

function isProfile(name: string): name is ProfileName {
  return Object.hasOwn(profiles, name)
}

function unknownProfile(found: unknown): string {
  return `--profile: found ${String(found)}, expected one of ${profileNames.join(', ')}`
}

function fileOf(found: unknown, directory: string): string | undefined {
  return typeof found === 'string' ? resolve(directory, found) : undefined
}

function usage(command: string, problem: string) {
  const message = `authproxy ${command}: ${problem}\nTry authproxy ${command} --help`
  return { run: 'usage', message } as const
}
