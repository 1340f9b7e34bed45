/**
 * Names that people bring from other proxies for logins (mod_auth_mellon, oauth2-proxy, nginx) or write by guess, and the settings of
 * authproxy they mean.
 */
import { type ForeignNames, namesOf } from '../../config/settings.ts'

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
  ...namesOf('domain', 'host hostname servername publicurl baseurl rooturl'),
  ...namesOf('domain', 'externalurl redirecturl url'),
  ...namesOf('idpMetadataURL, or idpMetadataFile', 'metadata idpmetadata metadataurl'),
  ...namesOf('idpMetadataURL, or idpMetadataFile', 'idp idpurl issuer oidcissuerurl'),
  ...namesOf('idpMetadataFile', 'metadatafile mellonidpmetadatafile'),
  ...namesOf(entityIds, 'entityid spentityid'),
  ...namesOf('proxy.targetURL', 'upstream upstreams backend backends backendurl'),
  ...namesOf('proxy.targetURL', 'proxypass target targeturl application app'),
  ...namesOf('proxy.listenAddress', 'listen port bind bindaddress address'),
  ...namesOf('proxy.listenAddress', 'httpaddress listenaddress listenport'),
  ...namesOf('proxy.targetDisableSSLVerify', 'sslverify tlsverify insecure skipverify'),
  ...namesOf('proxy.targetDisableSSLVerify', 'sslinsecureskipverify'),
  ...namesOf('proxy.trustedProxies', 'trustedproxies reverseproxy realip trustedip'),
  ...namesOf('proxy.useBasicAuth', 'basicauth passbasicauth'),
  ...namesOf('passthroughPaths', 'skipauth skipauthroutes skipauthregex publicpaths'),
  ...namesOf('passthroughPaths', 'whitelist allowlist unauthenticated excludepaths'),
  ...namesOf('access', 'rules require authorization allow roles acl'),
  ...namesOf('access', 'allowedgroups requiredgroups allowedusers emaildomains'),
  ...namesOf('session.lifetime', 'sessionlength sessionlifetime sessionduration'),
  ...namesOf('session.lifetime', 'cookieexpire sessiontimeout sessionttl'),
  ...namesOf('session.idle', 'idle idletimeout sessionidletimeout cookierefresh'),
  ...namesOf('saml.forceAuthn', 'forcelogin'),
  ...namesOf('samlRequestSigning', 'signrequests signrequest requestsigning'),
  ...namesOf('identity.attributes', 'attributemap attributemapping claims setenv'),
  ...namesOf('log.level', 'loglevel verbose debug'),
  ...namesOf('admin.listenAddress', 'metrics metricsaddress healthaddress'),
  ...namesOf(ownKeys, 'cookiesecret sessionsecret secret clientsecret privatekey'),
  ...namesOf(ownKeys, 'certificate cert key spcert spkey keyfile certfile'),
  ...namesOf(ownAddresses, 'acs acsurl assertionconsumerservice callback callbackurl'),
  ...namesOf(ownAddresses, 'endpointpath slourl logouturl'),
}
