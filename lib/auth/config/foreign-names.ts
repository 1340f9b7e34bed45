/**
 * Names that people bring from other proxies for logins (mod_auth_mellon, oauth2-proxy, nginx) or write by guess, and the settings of
 * authproxy they mean.
 */
import type { ForeignNames } from '../../config/settings.ts'

/** Several names of one setting, or of what needs none. */
const names = (is: ForeignNames[string], ...all: readonly string[]): ForeignNames =>
  Object.fromEntries(all.map(name => [name, is]))

const ownKeys = {
  says: 'keys and certificates are made at the first start and kept in configPath',
}
const entityIds = {
  says: 'idpEntityID is that of the identity provider; that of this service follows from domain',
}
const ownAddresses = {
  says: 'the addresses for the identity provider follow from domain; `authproxy doctor` names them',
}

export const foreignNames: ForeignNames = {
  ...names('domain', 'host', 'hostname', 'servername', 'publicurl', 'baseurl', 'rooturl'),
  ...names('domain', 'externalurl', 'redirecturl', 'url'),
  ...names('idpMetadataURL, or idpMetadataFile', 'metadata', 'idpmetadata', 'metadataurl'),
  ...names('idpMetadataURL, or idpMetadataFile', 'idp', 'idpurl', 'issuer', 'oidcissuerurl'),
  ...names('idpMetadataFile', 'metadatafile', 'mellonidpmetadatafile'),
  ...names(entityIds, 'entityid', 'spentityid'),
  ...names('proxy.targetURL', 'upstream', 'upstreams', 'backend', 'backends', 'backendurl'),
  ...names('proxy.targetURL', 'proxypass', 'target', 'targeturl', 'application', 'app'),
  ...names('proxy.listenAddress', 'listen', 'port', 'bind', 'bindaddress', 'address'),
  ...names('proxy.listenAddress', 'httpaddress', 'listenaddress', 'listenport'),
  ...names('proxy.targetDisableSSLVerify', 'sslverify', 'tlsverify', 'insecure', 'skipverify'),
  ...names('proxy.targetDisableSSLVerify', 'sslinsecureskipverify'),
  ...names('proxy.trustedProxies', 'trustedproxies', 'reverseproxy', 'realip', 'trustedip'),
  ...names('proxy.useBasicAuth', 'basicauth', 'passbasicauth'),
  ...names('passthroughPaths', 'skipauth', 'skipauthroutes', 'skipauthregex', 'publicpaths'),
  ...names('passthroughPaths', 'whitelist', 'allowlist', 'unauthenticated', 'excludepaths'),
  ...names('access', 'rules', 'require', 'authorization', 'allow', 'roles', 'acl'),
  ...names('access', 'allowedgroups', 'requiredgroups', 'allowedusers', 'emaildomains'),
  ...names('session.lifetime', 'sessionlength', 'sessionlifetime', 'sessionduration'),
  ...names('session.lifetime', 'cookieexpire', 'sessiontimeout', 'sessionttl'),
  ...names('session.idle', 'idle', 'idletimeout', 'sessionidletimeout', 'cookierefresh'),
  ...names('saml.forceAuthn', 'forcelogin'),
  ...names('samlRequestSigning', 'signrequests', 'signrequest', 'requestsigning'),
  ...names('identity.attributes', 'attributemap', 'attributemapping', 'claims', 'setenv'),
  ...names('log.level', 'loglevel', 'verbose', 'debug'),
  ...names('admin.listenAddress', 'metrics', 'metricsaddress', 'healthaddress'),
  ...names(ownKeys, 'cookiesecret', 'sessionsecret', 'secret', 'clientsecret', 'privatekey'),
  ...names(ownKeys, 'certificate', 'cert', 'key', 'spcert', 'spkey', 'keyfile', 'certfile'),
  ...names(ownAddresses, 'acs', 'acsurl', 'assertionconsumerservice', 'callback', 'callbackurl'),
  ...names(ownAddresses, 'endpointpath', 'slourl', 'logouturl'),
}
