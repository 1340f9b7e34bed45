/**
 * Opens the CA that issues the certificates of this proxy: the operator's, from PEM files, or one that the service makes in the cache
 * directory. A CA that cannot be used causes an error with one sentence that names the setting and the file.
 *
 * Name constraints limit the service's own CA to the hosts for which it is needed, so that a stolen key is of little use for other
 * hosts. Its certificate and its key are in one file, so that one rename replaces both.
 */
import type { KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { day, type Milliseconds } from '../../../async/clock.ts'
import { Failure, problemOf, unreadableReason } from '../../../errors.ts'
import { countOf, date } from '../../../figures.ts'
import { writeFileAtomically } from '../../../files/atomic-file.ts'
import {
  type Certificate,
  canIssue,
  createIssuer,
  generateAuthority,
  type Issuer,
  type PermittedNames,
  readCertificates,
  readPrivateKey,
} from '../../../x509/x509.ts'
import { type Config, type HttpsConfig, needsAuthority } from '../../config/config.ts'
import { ownIdentity } from '../../policy/routing.ts'

export interface Authority {
  readonly certificate: Certificate
  readonly issuer: Issuer
  /** The certificates that follow a leaf, in PEM: the CA itself unless it is a root, then those between it and its root. */
  readonly chain: string
  readonly file: string
  readonly made: boolean
  readonly warnings: readonly string[]
}

/** The service warns of a CA that expires within this time. */
const notice = 30 * day
const lifetime = 10 * 365 * day

/** Opens the CA that the settings name, else the service's own CA, which it makes if needed. Throws a Failure with one sentence. */
export async function openAuthority(config: Config, now: Milliseconds): Promise<Authority> {
  const { cert, key, password, enableCrl } = config.https
  if (cert !== undefined) {
    const authority = await readAuthority({ cert, key, password, now })
    const { maySignLists, subject } = authority.certificate
    if (!enableCrl || maySignLists) return authority
    throw wrong(
      `${subject} in ${cert} may not sign revocation lists, for its key usage lacks cRLSign; set https.enable_crl to false`,
    )
  }
  if (key !== undefined)
    throw wrong('https.key is set without https.cert; name the certificate, too')
  const file = ownFile(config)
  const made = !existsSync(file)
  if (made) await makeAuthority(file, config, now)
  const read = await readAuthority({ cert: file, key: undefined, password: '', now })
  return { ...read, made, warnings: [...read.warnings, ...uncovered(read, config)] }
}

/** The reason why the service cannot start with the CA of these settings; undefined when it can. Makes no CA. */
export async function authorityProblem(
  config: Config,
  now: Milliseconds,
): Promise<string | undefined> {
  if (!needsAuthority(config)) return undefined
  const { cert, key } = config.https
  if (cert === undefined && key === undefined && !existsSync(ownFile(config))) return undefined
  return problemOf(() => openAuthority(config, now))
}

/** Whether a certificate ends so soon that the service warns of it. */
export function expiresSoon(certificate: Certificate, now: Milliseconds): boolean {
  return certificate.notAfter - now < notice
}

export function expiryWarnings(
  { certificate, file }: Pick<Authority, 'certificate' | 'file'>,
  now: Milliseconds,
): readonly string[] {
  if (!expiresSoon(certificate, now)) return []
  const { subject, notAfter } = certificate
  const days = Math.floor((notAfter - now) / day)
  const words =
    days < 0
      ? `has expired on ${date(notAfter)}`
      : `expires on ${date(notAfter)}, in ${countOf(days, 'day')}`
  return [`the CA certificate ${subject} in ${file} ${words}`]
}

function ownFile({ cacheDirectory }: Config): string {
  return join(cacheDirectory, 'authority.pem')
}

interface Files extends Pick<HttpsConfig, 'key' | 'password'> {
  readonly cert: string
  readonly now: Milliseconds
}

async function readAuthority({ cert, key: keyFile, password, now }: Files): Promise<Authority> {
  const certificates = await certificatesIn(cert)
  const key = await keyIn(keyFile ?? cert, password)
  const certificate = certificates.find(one => one.hasKey(key))
  if (certificate === undefined) {
    const subjects = certificates.map(({ subject }) => subject).join(' and ')
    throw wrong(
      `the key in ${keyFile ?? cert} does not belong to the certificate in ${cert} (${subjects})`,
    )
  }
  if (!certificate.isAuthority) {
    throw wrong(
      `${certificate.subject} in ${cert} is not a CA certificate; one with CA:TRUE and the key usage keyCertSign is needed`,
    )
  }
  const chain = chainFrom(certificate, certificates)
  for (const link of chain) checkDates(link, cert, now)
  return {
    certificate,
    issuer: await createIssuer(certificate, key),
    chain: chain
      .filter(({ selfSigned }) => !selfSigned)
      .map(({ pem }) => pem)
      .join(''),
    file: cert,
    made: false,
    warnings: [
      ...(await keyWarnings(keyFile ?? cert)),
      ...expiryWarnings({ certificate, file: cert }, now),
    ],
  }
}

async function certificatesIn(file: string): Promise<readonly Certificate[]> {
  const text = await read('https.cert', file)
  let found: readonly Certificate[]
  try {
    found = readCertificates(text)
  } catch (cause) {
    throw wrong(`https.cert: a certificate in ${file} is damaged and cannot be read`, cause)
  }
  if (found.length > 0) return found
  throw wrong(`https.cert: ${file} holds no certificate in PEM form`)
}

async function keyIn(file: string, password: string): Promise<KeyObject> {
  const key = readPrivateKey(await read('https.key', file), password)
  const sentences = {
    'password-missing': `the key in ${file} is encrypted; its password belongs in https.password`,
    'password-wrong': `https.password is not the password of the key in ${file}`,
    absent: `https.key: ${file} holds no private key in PEM form`,
    unreadable: `https.key: the private key in ${file} is damaged and cannot be read`,
  } as const
  if (typeof key === 'string') throw wrong(sentences[key])
  if (canIssue(key)) return key
  throw wrong(
    `https.key: the key in ${file} is of a kind that is not supported; RSA, or EC on P-256, P-384 or P-521 is needed`,
  )
}

async function keyWarnings(file: string): Promise<readonly string[]> {
  const { mode } = await stat(file)
  return (mode & 0o004) === 0
    ? []
    : [`the private key in ${file} can be read by every user of this machine; chmod 600`]
}

/** The certificate, its issuer, the issuer of that, and so on, as far as `among` has them. */
function chainFrom(
  certificate: Certificate,
  among: readonly Certificate[],
): readonly Certificate[] {
  const chain = [certificate]
  for (let last = certificate; !last.selfSigned; ) {
    const next = among.find(one => !chain.includes(one) && one.hasSigned(last))
    if (next === undefined) break
    chain.push(next)
    last = next
  }
  return chain
}

function checkDates(
  { subject, notBefore, notAfter }: Certificate,
  file: string,
  now: number,
): void {
  const certificate = `the certificate ${subject} in ${file}`
  if (now > notAfter) throw wrong(`${certificate} has expired on ${date(notAfter)}`)
  if (now < notBefore) {
    throw wrong(`${certificate} is not valid before ${date(notBefore)}; is the clock right?`)
  }
}

async function makeAuthority(file: string, config: Config, now: Milliseconds): Promise<void> {
  const commonName = `cachesvc ${date(now)} ${hostname()}`.slice(0, 64)
  const { certificate, key } = await generateAuthority({
    commonName,
    permittedNames: config.domains.length === 0 ? undefined : permittedHosts(config),
    notBefore: now - day,
    notAfter: now + lifetime,
  })
  await writeFileAtomically(file, `${certificate}${key}`, { mode: 0o600 })
}

/** A warning when hosts were added to the settings after the CA was made. */
function uncovered({ certificate, file }: Authority, config: Config): readonly string[] {
  const hosts = listedHosts(config)
    .filter(({ host }) => !certificate.permits(host))
    .map(({ text }) => text)
  if (hosts.length === 0) return []
  return [
    `the CA in ${file} was made for other hosts: ${hosts.join(', ')} will be tunnelled unread; remove the file to have one made that covers them, which all clients must then trust`,
  ]
}

async function read(setting: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw wrong(`${setting}: cannot read ${file}: ${unreadableReason(error)}`, error)
  }
}

function wrong(sentence: string, cause?: unknown): Failure {
  return new Failure(sentence, { code: 'AUTHORITY', cause })
}

/**
 * Whether a certificate may name this host: an IP address, or a name of letters, digits and hyphens (RFC 952, RFC 1123 section
 * 2.1) that cannot be read as an address. Wildcards and underscores are not such names.
 */
export function isCertifiable(host: string): boolean {
  if (isIP(host) !== 0) return true
  const labels = host.split('.')
  const right = labels.every(label => /^(?!-)[a-z0-9-]{1,63}(?<!-)$/.test(label))
  return right && host.length <= 253 && !/^\d+$/.test(labels.at(-1) ?? '')
}

/**
 * The names and addresses in the certificate of the TLS listener: those of this proxy, `localhost` and loopback, as far as a
 * certificate may name them. The first is the main name.
 */
export function listenerNames(config: Config): readonly [string, ...string[]] {
  const { names, addresses } = ownIdentity(config, [])
  const { certificateDomain } = config.https
  const main = certificateDomain === undefined ? [] : [certificateDomain]
  const all = [...main, ...names, 'localhost', '127.0.0.1', '::1', ...addresses]
  const [first = 'localhost', ...rest] = new Set(all.filter(isCertifiable))
  return [first, ...rest]
}

/** The hosts for which the service's own CA may issue certificates: those whose tunnels may be intercepted, and this machine. */
function permittedHosts(config: Config): PermittedNames {
  const listed = listedHosts(config).map(({ host }) => host)
  const all = [...new Set([...listed, ...listenerNames(config)])]
  return {
    names: all.filter(host => isIP(host) === 0),
    networks: all
      .filter(host => isIP(host) !== 0)
      .map(host => `${host}/${host.includes(':') ? 128 : 32}`),
  }
}

/** The patterns of hosts whose tunnels may be intercepted. */
function listedHosts({ domains, privateDomains, https }: Config) {
  return [...domains, ...privateDomains, ...https.interceptDomains]
}
