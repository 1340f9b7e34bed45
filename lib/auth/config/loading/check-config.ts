/**
 * Finds mistakes and dangers in combinations of settings that are each correct by themselves. Pure.
 */
import { type Remarks, valueRemarks } from '../../../config/reading.ts'
import { defaultPort, parseAuthority, type TargetUri } from '../../../http/message/target.ts'
import type { ListenAddress } from '../../../http/server/listen.ts'
import { isPublicAddress } from '../../../ip.ts'
import { claims } from '../../session/claim.ts'
import type { SettingValues } from '../settings.ts'
import { checkNames } from './check-names.ts'

/** The remarks on the values. */
export function crossCheck(values: SettingValues): Remarks {
  const { problems, warnings, wrong, warn } = valueRemarks()
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
  if (admin.listenAddress !== undefined && same(admin.listenAddress, listenAddress)) {
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

  const named = checkNames(values)
  problems.push(...named.problems)
  warnings.push(...named.warnings)

  if (proxy.targetDisableSSLVerify) {
    warn(
      ['proxy', 'targetDisableSSLVerify'],
      targetURL.scheme === 'http'
        ? 'has no effect: the backend is reached without TLS'
        : 'a host between here and the backend can read and change everything; name the authority in proxy.targetCertificates instead',
    )
  }
  const { targetClientCertificate: certificate, targetClientKey: key } = proxy
  if ((certificate === undefined) !== (key === undefined)) {
    const [there, missing] =
      key === undefined ? CLIENT_FILES : ([CLIENT_FILES[1], CLIENT_FILES[0]] as const)
    wrong(['proxy', there], `needs proxy.${missing} beside it`)
  }
  for (const name of ['targetServerName', 'targetClientCertificate'] as const) {
    if (targetURL.scheme === 'http' && proxy[name] !== undefined) {
      warn(['proxy', name], 'has no effect: the backend is reached without TLS')
    }
  }
  if (proxy.proxyProtocol && proxy.trustedProxies.length === 0) {
    wrong(
      ['proxy', 'proxyProtocol'],
      'is of no use without proxy.trustedProxies: name the load balancer there, which alone may begin so',
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
  if (
    values.idpMetadataURL?.toLowerCase().startsWith('http:') &&
    values.idpMetadataCertificate === undefined
  ) {
    warn(
      ['idpMetadataURL'],
      'metadata fetched without TLS can be replaced on its way, and with it who may log in; use https or idpMetadataCertificate',
    )
  }
  for (const place of ['idpMetadataProxy', 'idpMetadataProxyFile'] as const) {
    if (values[place] !== undefined && values.idpMetadataURL === undefined) {
      warn([place], 'has no effect: idpMetadataFile is read from the disk')
    }
  }
  if (values.idpMetadataProxy !== undefined && values.idpMetadataProxyFile !== undefined) {
    wrong(['idpMetadataProxyFile'], 'stands beside idpMetadataProxy; leave one')
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
        `lets every path pass that begins so, such as ${prefix}-admin; write ${prefix}/ when a folder is meant`,
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
  if (values.identity.tokenAudience !== undefined && !values.identity.token) {
    warn(['identity', 'tokenAudience'], 'has no effect: identity.token is off')
  }
  if (values.saml.allowSHA1) warn(['saml', 'allowSHA1'], 'signatures over SHA-1 can be forged')
  return { problems, warnings }
}

const CLIENT_FILES = ['targetClientCertificate', 'targetClientKey'] as const

/** The settings that can hold a token. */
const TOKEN_PLACES = ['sha256', 'token', 'sha256File', 'tokenFile'] as const

/** The earlier attribute with the same name but for case. Field names ignore case, so the two would share one field. */
function takenBy(name: string, earlier: readonly string[]): string | undefined {
  const low = name.toLowerCase()
  if (RESERVED.includes(low)) return 'is taken by a field of our own; choose another'
  const known = claims.find(claim =>
    [claim.name, claim.field].some(each => each.toLowerCase() === low),
  )
  if (known !== undefined && known.name !== name) {
    return `has the field of the known attribute ${known.name}; write ${known.name} to give that one more names, or choose another`
  }
  const same = earlier.find(each => each.toLowerCase() === low)
  return same === undefined ? undefined : `is the field of an earlier attribute, ${same}, as well`
}

const RESERVED = [
  ...['user', 'instance-id', 'authorization', 'omitted', 'request-id', 'login', 'domain'],
  ...['groups-overage', 'identity'],
]

function isPublicOrigin(target: TargetUri, domain: string): boolean {
  const own = parseAuthority(domain, defaultPort('https'))
  return !('problem' in own) && target.host === own.host && target.port === own.port
}

/** Whether the target is a listener of ours on this machine, as far as its address tells. */
function reaches(target: TargetUri, { address, port }: ListenAddress): boolean {
  if (port === 0 || target.port !== port) return false
  const loopback = ['localhost', '::1'].includes(target.host) || /^127\./.test(target.host)
  const everywhere = address === undefined || address === '0.0.0.0' || address === '::'
  if (target.host === address) return true
  if (everywhere) return loopback
  return loopback && (address === '127.0.0.1' || address === '::1') && target.host === 'localhost'
}

function same(a: ListenAddress, b: ListenAddress): boolean {
  return a.port !== 0 && a.port === b.port && a.address === b.address
}
