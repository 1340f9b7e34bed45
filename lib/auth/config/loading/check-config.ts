/**
 * Finds mistakes and dangers in combinations of settings that are each correct by themselves. Pure.
 */

import { isIP } from 'node:net'
import { type Remarks, valueRemarks } from '../../../config/reading.ts'
import { defaultPort, parseAuthority, type TargetUri } from '../../../http/message/target.ts'
import type { ListenAddress } from '../../../http/server/listen.ts'
import { isLoopback, isPublicAddress } from '../../../ip.ts'
import { isSameField } from '../../access/foreign-names.ts'
import { isOwnName } from '../../access/own-fields.ts'
import { claims } from '../claims.ts'
import { fieldNames, type NamedField, type NameSet } from '../field-names.ts'
import type { SettingValues } from '../settings.ts'
import { checkIdentityToken, checkSources } from './check-identity-token.ts'

export function crossCheck(values: SettingValues): Remarks {
  const collected = valueRemarks()
  const { wrong, warn } = collected
  const { domain, proxy, admin } = values
  const { listenAddress, targetURL } = proxy

  if (isPublicOrigin(targetURL, domain)) {
    wrong(
      ['proxy', 'targetURL'],
      `leads back to the public origin https://${domain}, so every request would run in a circle; name the address of the backend itself`,
    )
  }
  if (reaches(targetURL, listenAddress)) {
    wrong(
      ['proxy', 'targetURL'],
      'leads back to proxy.listenAddress, so every request would run in a circle; name the address of the backend',
    )
  }
  if (admin.listenAddress !== undefined && collide(admin.listenAddress, listenAddress)) {
    wrong(['admin', 'listenAddress'], 'is the same as proxy.listenAddress; take another port')
  }
  const names = values.passthroughTokens.map(({ name }) => name)
  for (const [index, given] of values.passthroughTokens.entries()) {
    const { name } = given
    const path = ['passthroughTokens', index]
    if (name === '') wrong(path, 'has no name; the log needs one')
    else if (names.indexOf(name) < index) {
      wrong([...path, 'name'], 'is the name of an earlier token as well')
    }
    const [first, second] = TOKEN_PLACES.filter(place => given[place] !== undefined)
    if (first === undefined) wrong(path, `has none of ${TOKEN_PLACES.join(', ')}`)
    if (second !== undefined) wrong(path, `has ${first} and ${second}; leave one`)
  }
  const custom = values.identity.attributes.map(({ name }) => name)
  for (const [index, name] of custom.entries()) {
    const taken = takenBy(name, custom.slice(0, index))
    if (taken !== undefined) wrong(['identity', 'attributes', index, 'name'], taken)
  }

  checkNames(values, collected)
  const { field: credential } = values.backendCredential
  const fields = values.identity.names.flatMap(fieldsOf)
  checkIdentityToken(values, credential === undefined ? fields : [...fields, credential], collected)

  if (proxy.targetDisableSSLVerify && targetURL.scheme === 'https') {
    warn(
      ['proxy', 'targetDisableSSLVerify'],
      'a host between here and the backend can read and change everything; name the authority in proxy.targetCertificates instead',
    )
  }
  proxy.trustedProxies.forEach((network, index) => {
    const [, length] = network.split('/')
    if (Number(length) < (network.includes(':') ? 48 : 16)) {
      warn(
        ['proxy', 'trustedProxies', index],
        'is a wide network: every host in it can claim any client address; name exact addresses',
      )
    }
  })
  if (targetURL.scheme === 'http' && isPublicAddress(targetURL.host)) {
    warn(['proxy', 'targetURL'], 'identity fields cross the Internet in the clear; use https')
  }
  if (values.idpMetadataCertificate === undefined && isOpenToOthers(values.idpMetadataURL)) {
    wrong(
      ['idpMetadataURL'],
      'metadata fetched without TLS can be replaced on its way, and with it who may log in; use https, idpMetadataFile, or idpMetadataCertificate where the metadata is signed',
    )
  }
  if (listenAddress.port > 0 && listenAddress.port < 1024) {
    warn(
      ['proxy', 'listenAddress'],
      'ports below 1024 need a privilege the packaged service does not have',
    )
  }
  for (const [index, prefix] of values.passthroughPaths.entries()) {
    const path = ['passthroughPaths', index]
    if (prefix.startsWith('/saml/') || '/saml/'.startsWith(prefix)) {
      warn(path, 'the paths of SAML are answered here whatever this list says')
    }
    if (!prefix.endsWith('/')) {
      warn(
        path,
        `lets every path pass that begins with it, such as ${prefix}-admin; write ${prefix}/ when a folder is meant`,
      )
    }
  }
  const { metadataCacheDuration: caching, metadataValidity: validity } = values.saml
  if (caching !== undefined && validity !== undefined && caching >= validity) {
    wrong(
      ['saml', 'metadataCacheDuration'],
      'is not less than saml.metadataValidity: the document would end before it is fetched again',
    )
  }
  if ((caching ?? validity ?? 0) > values.keys.overlap / 2) {
    warn(
      ['saml', caching === undefined ? 'metadataValidity' : 'metadataCacheDuration'],
      'is more than half of keys.overlap: the identity provider may not know a new key when that begins to sign',
    )
  }
  if (values.saml.allowUnsignedLogout) {
    warn(
      ['saml', 'allowUnsignedLogout'],
      'every host that knows a NameID can end that user’s sessions',
    )
  }
  if (values.saml.allowSHA1) warn(['saml', 'allowSHA1'], 'signatures over SHA-1 can be forged')
  checkForwardAuth(values, collected)
  checkState(values, collected)
  return collected
}

type Collected = ReturnType<typeof valueRemarks>

/** The settings that can hold a token. */
const TOKEN_PLACES = ['sha256', 'token', 'sha256File', 'tokenFile'] as const

/** The earlier attribute with the same name except for case. Field names ignore case, so the two would share one field. */
function takenBy(name: string, earlier: readonly string[]): string | undefined {
  const low = name.toLowerCase()
  // Rules have a member `users` beside the attributes.
  if (isOwnName(name) || low === 'users') return 'is taken by a field of our own; choose another'
  const known = claims.find(claim =>
    [claim.name, claim.field].some(each => each.toLowerCase() === low),
  )
  if (known !== undefined && known.name !== name) {
    return `has the field of the known attribute ${known.name}; write ${known.name} to give that one more names, or choose another`
  }
  const same = earlier.find(each => each.toLowerCase() === low)
  return same === undefined ? undefined : `is the field of an earlier attribute, ${same}, as well`
}

function isPublicOrigin(target: TargetUri, domain: string): boolean {
  const own = parseAuthority(domain, defaultPort('https'))
  return !('problem' in own) && target.host === own.host && target.port === own.port
}

/** Whether the target is a listener of ours on this machine, as far as its address tells. */
function reaches(target: TargetUri, { address, port }: ListenAddress): boolean {
  if (port === 0 || target.port !== port) return false
  const loopback = ['localhost', '::1'].includes(target.host) || /^127\./.test(target.host)
  if (target.host === address) return true
  if (isEverywhere(address)) return loopback
  return loopback && (address === '127.0.0.1' || address === '::1') && target.host === 'localhost'
}

/** Whether two listeners would use the same address and port. */
function collide(a: ListenAddress, b: ListenAddress): boolean {
  if (a.port === 0 || a.port !== b.port) return false
  return covers(a.address, b.address) || covers(b.address, a.address)
}

/** Whether a listener at this address uses the other one as well. At `0.0.0.0` it uses none of IPv6. */
function covers(address: string | undefined, other: string | undefined): boolean {
  if (address === '0.0.0.0') return !other?.includes(':')
  return isEverywhere(address) || address === other
}

function isEverywhere(address: string | undefined): boolean {
  return address === undefined || address === '0.0.0.0' || address === '::'
}

type Chosen = NameSet | NamedField

/** Checks the names of the fields in which the backend reads the identity, and that of the credential. */
function checkNames(
  { identity, backendCredential: { field: credential } }: SettingValues,
  collected: Collected,
): void {
  const { wrong, warn } = collected
  const { names } = identity
  const place = ['identity', 'names']
  if (names.length === 0) {
    wrong(place, 'names nothing, so the application would not learn who asks')
  }
  for (const [index, chosen] of names.entries()) {
    const taken = fieldsOf(chosen).find(field => isTaken(field, names.slice(0, index)))
    if (taken !== undefined) {
      wrong([...place, index], `${taken} is named before, or read as the same name; leave one`)
    }
    if (typeof chosen === 'string') continue
    checkSources(chosen.from, { at: [...place, index, 'from'], identity }, collected)
    if (chosen.separator !== ',' && chosen.form !== undefined && chosen.form !== 'list') {
      warn([...place, index, 'separator'], `has no effect: the form is ${chosen.form}`)
    }
  }
  if (credential !== undefined && isTaken(credential, names)) {
    wrong(['backendCredential', 'field'], 'is a header of identity.names as well; choose another')
  }
  if (names.length > 0 && !names.some(saysWho)) {
    warn(place, 'name no header for the user: the application does not learn who asks')
  }
}

function fieldsOf(chosen: Chosen): readonly string[] {
  if (typeof chosen !== 'string') return [chosen.field]
  return chosen === 'authproxy'
    ? ['X-Authproxy-User']
    : fieldNames([chosen]).others.map(({ field }) => field)
}

function isTaken(field: string, earlier: readonly Chosen[]): boolean {
  return earlier.flatMap(fieldsOf).some(other => isSameField(field, other))
}

function saysWho(chosen: Chosen): boolean {
  return typeof chosen === 'string' || chosen.from.includes('user')
}

/** Checks the settings of the listener for the checks of an edge. */
function checkForwardAuth(
  { domain, proxy, admin, forwardAuth }: SettingValues,
  { wrong, warn }: Collected,
): void {
  const { listenAddress, trustedProxies, secretFile, hosts } = forwardAuth
  if (listenAddress === undefined) return
  for (const [index, host] of hosts.entries()) {
    if (host !== domain) {
      wrong(
        ['forwardAuth', 'hosts', index],
        `is not ${domain}: browsers send the cookie of a session to the host of its login alone, so no one could be signed in under another name; give that application an instance of its own`,
      )
    }
  }
  trustedProxies.forEach((network, index) => {
    const length = Number(network.split('/')[1])
    const [most, wide] = network.includes(':') ? [16, 48] : [8, 16]
    if (length < most) {
      wrong(
        ['forwardAuth', 'trustedProxies', index],
        'is a network of strangers: every host in it could ask in the name of any client; name the edge',
      )
    } else if (length < wide) {
      warn(
        ['forwardAuth', 'trustedProxies', index],
        'is a wide network: every host in it can ask, and claim any client address; name exact addresses',
      )
    }
  })
  if ('path' in listenAddress) return
  if (trustedProxies.length === 0) {
    wrong(
      ['forwardAuth', 'listenAddress'],
      'also needs forwardAuth.trustedProxies: name the address of the edge, so that no other program may ask',
    )
  }
  for (const [name, other] of [
    ['proxy.listenAddress', proxy.listenAddress],
    ['admin.listenAddress', admin.listenAddress],
  ] as const) {
    if (other !== undefined && collide(listenAddress, other)) {
      wrong(['forwardAuth', 'listenAddress'], `is the same as ${name}; take another port`)
    }
  }
  const { address } = listenAddress
  if (secretFile === undefined && (address === undefined || !isLoopback(address))) {
    warn(
      ['forwardAuth', 'listenAddress'],
      'is open to the network without a secret: set forwardAuth.secretFile, so that only the edge can ask',
    )
  }
}

/** Checks the shared store. */
function checkState({ state: { url }, session }: SettingValues, { warn }: Collected): void {
  if (url === undefined) return
  if (!url.tls && isPublicAddress(url.host)) {
    warn(
      ['state', 'url'],
      'the password of the store and the ends of sessions cross the Internet in the clear; use rediss://',
    )
  }
  if (!session.revocation) {
    warn(
      ['session', 'revocation'],
      'is off, so no end of a session is passed on to the other instances',
    )
  }
}

/** Whether others than this machine can change what an address answers: it is without TLS, and of another machine. */
function isOpenToOthers(address: string | undefined): boolean {
  const url = address === undefined ? undefined : URL.parse(address)
  if (url?.protocol !== 'http:') return false
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return host !== 'localhost' && !(isIP(host) > 0 && isLoopback(host))
}
