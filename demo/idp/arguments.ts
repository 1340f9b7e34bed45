/**
 * The command lines of `authproxy dev-idp` and `authproxy demo`.
 */
import { type CommandLine, type Program, pathOption, WrongUsage } from '../../lib/command-line.ts'
import { readListenAddress } from '../../lib/config/address-kinds.ts'
import { mismatch, type ReadResult, readFailure, readResult } from '../../lib/config/reading.ts'
import type { ListenAddress } from '../../lib/http/server/listen.ts'
import { type ProfileName, profiles } from './profile.ts'

const profileNames = Object.keys(profiles)

const profile = {
  value: 'NAME',
  default: 'entra',
  read: readProfile,
  help: `whose way of answering: ${profileNames.join(', ')} (entra)`,
} as const

export const devIdp = {
  name: 'authproxy dev-idp',
  usage: ['[OPTION]...'],
  about:
    'A SAML identity provider for trying and testing. A user can log in as any person there: it is bound to loopback addresses and must never serve real users.',
  commands: { 'dev-idp': { summary: '' } },
  options: {
    listen: {
      value: 'ADDRESS:PORT',
      default: '127.0.0.1:8989',
      read: readLoopback,
      help: 'where to listen (127.0.0.1:8989)',
    },
    profile,
    users: {
      value: 'FILE',
      read: pathOption,
      help: 'YAML with people: users: [{ name, password, email, displayName, givenName, surname, sAMAccountName, groups }]',
    },
    'encrypt-to': {
      value: 'FILE',
      read: pathOption,
      help: 'encrypt assertions to this certificate; a gateway serves its own at /saml/certificate.crt',
    },
    'encrypt-parts': {
      help: 'encrypt the name and every attribute on its own, and not the assertion',
    },
    'want-signed': { help: 'say in the metadata that requests are to be signed' },
    for: {
      value: 'HOST',
      many: true,
      help: 'also serve a gateway with the domain HOST, which is not a name of this machine only; may be repeated',
    },
  },
} as const satisfies Program

export type DevIdpOptions = CommandLine<typeof devIdp>['options']

export const demo = {
  name: 'authproxy demo',
  usage: ['[OPTION]...'],
  about:
    'A gateway, an identity provider and an application to try, in one command, with TLS and a throw-away certificate. Nothing is kept.',
  commands: { demo: { summary: '' } },
  options: {
    port: {
      value: 'PORT',
      default: '8443',
      read: readDemoPort,
      help: 'the public port (8443); the identity provider has the next one',
    },
    profile,
    users: {
      value: 'FILE',
      read: pathOption,
      help: 'people, as for authproxy dev-idp',
    },
    encrypt: { help: 'encrypt assertions' },
  },
} as const satisfies Program

export type DemoOptions = CommandLine<typeof demo>['options']

/** Throws WrongUsage for options that do not go together. */
export function checkDevIdp(options: DevIdpOptions): void {
  if (options['encrypt-parts'] && options['encrypt-to'] === undefined) {
    throw new WrongUsage('--encrypt-parts also needs --encrypt-to FILE')
  }
}

function readLoopback(text: string): ReadResult<ListenAddress> {
  const read = readListenAddress(text)
  const { address } = read.ok ? read.value : {}
  if (!read.ok || address === '::1' || address?.startsWith('127.')) return read
  return readFailure(
    'only loopback addresses, such as 127.0.0.1:8989; a client of this service can be any person',
  )
}

function readProfile(text: string): ReadResult<ProfileName> {
  const isName = (name: string): name is ProfileName => Object.hasOwn(profiles, name)
  return isName(text) ? readResult(text) : mismatch(text, `one of ${profileNames.join(', ')}`)
}

function readDemoPort(text: string): ReadResult<number> {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 65_536
  return port <= 65_535 ? readResult(port) : mismatch(text, 'a port such as 8443')
}
