/**
 * Makes the client for origins from the configuration: its deadlines, its limits, the parent proxies and the trusted authorities.
 */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { rootCertificates } from 'node:tls'
import type { Clock } from '../../async/clock.ts'
import type { BlockPool } from '../../bytes/block-pool.ts'
import { explainError, Failure, systemCode, unreadableReason } from '../../errors.ts'
import { OriginClient } from '../../http/client/client.ts'
import type { Lookup } from '../../http/client/dialling/name-lookup.ts'
import type { ParentRules } from '../../http/client/dialling/parents.ts'
import type { Logger } from '../../log/log.ts'
import { readCertificates } from '../../x509/x509.ts'
import type { Config } from '../config/config.ts'
import type { ParentProxies } from '../config/setting-kinds.ts'
import { isAllowedAddress, type Rules } from '../policy/policy.ts'
import { archivesAt, compileParent, connectionsTo, isAskedThrough } from '../policy/routing.ts'

interface ClientParts {
  /** The rules in force: some settings take effect with a reload. */
  readonly rules: () => Rules
  readonly clock: Clock
  readonly blocks: BlockPool
  readonly lookup?: Lookup
  readonly log: Logger
}

/** Makes the client. Throws a Failure with one sentence when a file of `https.origin_ca` cannot be used. */
export async function originClient(
  config: Config,
  { rules, clock, blocks, lookup, log }: ClientParts,
): Promise<OriginClient> {
  const { connect, fields, content } = config.timeouts
  return new OriginClient({
    clock,
    blocks,
    isPublic: address => isAllowedAddress(address, rules().policy),
    familyOf: authority => {
      const { archives, addressFamily } = rules().config
      const own = archivesAt(authority, archives).find(one => one.addressFamily !== undefined)
      return own?.addressFamily ?? addressFamily
    },
    connectionsTo: authority => connectionsTo(authority, rules().config.archives),
    onSilent: ({ origin, address }) =>
      log.warn('an address of an origin takes connections and stays silent; it comes last now', {
        origin,
        address,
      }),
    onFewerConnections: ({ origin, connections, because }) =>
      log.warn('an origin refuses some of several connections; it gets fewer', {
        origin,
        connections,
        because,
        setting: 'archives.connections',
      }),
    parents: config.parentProxy && parentRules(config.parentProxy, log),
    ca: await trustedAuthorities(config, log),
    deadlines: { lookup: connect, connect, tls: connect, parent: connect, fields, content },
    limits: { perOrigin: config.limits.originConnections },
    ...(lookup === undefined ? {} : { lookup }),
  })
}

function parentRules(proxies: ParentProxies, log: Logger): ParentRules {
  const { parents, direct } = proxies
  const compiled = parents.map(compileParent)
  return {
    parents,
    direct,
    asks: (parent, authority) =>
      compiled.some(one => one.proxy === parent && isAskedThrough(one, authority)),
    onChange(parent, failure) {
      if (failure === undefined) return log.info('a parent proxy answers again', { parent })
      const next = direct || parents.length > 1 ? ', the next way is taken' : ''
      log.warn(`a parent proxy fails${next}`, { parent, error: failure })
    },
  }
}

/** The authorities that are trusted for origins in addition to those of Node, in PEM: the system's and those of `https.origin_ca`. */
export async function trustedAuthorities(
  { https }: Pick<Config, 'https'>,
  log: Logger,
): Promise<readonly string[]> {
  const own = await originAuthorities(https.originCa)
  return [...(await systemAuthorities(process.env, sentence => log.warn(sentence))), ...own]
}

/** The certificates in the files of `https.origin_ca`, in PEM. Throws a Failure with one sentence when a file has none. */
export async function originAuthorities(files: readonly string[]): Promise<readonly string[]> {
  const found: string[] = []
  for (const file of files) {
    try {
      const certificates = readCertificates(await readFile(file, 'latin1'))
      if (certificates.length === 0) throw new Error('it has no certificate in PEM form')
      found.push(...certificates.map(({ pem }) => pem))
    } catch (error) {
      const sentence = `https.origin_ca names ${file}, which cannot be used: ${unreadableReason(error)}`
      throw new Failure(sentence, { code: 'ORIGIN_CA', cause: error })
    }
  }
  return found
}

/** The files in which Debian, Fedora, openSUSE and Alpine keep all authorities. The first that exists counts. */
const stores = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/**
 * The authorities that the system trusts, in PEM. Organisations add their own to these (`update-ca-certificates`), and Node does not read
 * them, because it has its own list.
 *
 * They come from the file that `SSL_CERT_FILE` names, else from the system's file, and from `NODE_EXTRA_CA_CERTS`. A missing file counts
 * as empty, as in small images. `warn` is called for a file that cannot be read.
 */
export async function systemAuthorities(
  environment: Readonly<Record<string, string | undefined>>,
  warn: (sentence: string) => void,
): Promise<readonly string[]> {
  const { SSL_CERT_FILE: named = '', NODE_EXTRA_CA_CERTS: extra = '' } = environment
  const found: string[] = []
  for (const file of named === '' ? stores : [named]) {
    const certificates = await certificatesOf(file, warn)
    if (certificates === undefined) continue
    found.push(...certificates)
    break
  }
  if (extra !== '') found.push(...((await certificatesOf(extra, warn)) ?? []))
  return found
}

const blocks = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** The certificates that Node does not have already. Most are the same, and parsing all of them would take a second. */
function newOnes(pems: readonly string[]): readonly string[] {
  const known = new Set(rootCertificates.map(withoutSpace))
  return pems.filter(pem => !known.has(withoutSpace(pem)))
}

function withoutSpace(pem: string): string {
  return pem.replace(/\s/g, '')
}

/** The certificate if OpenSSL accepts it, else none: with one invalid certificate, TLS would accept none of the others. */
function readOne(pem: string, file: string, warn: (sentence: string) => void): readonly string[] {
  try {
    return [new X509Certificate(pem).toString()]
  } catch (error) {
    warn(`one of the certificates in ${file} cannot be used for origins: ${explainError(error)}`)
    return []
  }
}

/** The new certificates in a file; undefined when there is no such file. */
async function certificatesOf(
  file: string,
  warn: (sentence: string) => void,
): Promise<readonly string[] | undefined> {
  try {
    const text = await readFile(file, 'latin1')
    return newOnes(text.match(blocks) ?? []).flatMap(pem => readOne(pem, file, warn))
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    warn(`the certificates in ${file} cannot be used for origins: ${explainError(error)}`)
    return []
  }
}
