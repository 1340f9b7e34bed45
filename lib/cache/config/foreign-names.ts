/**
 * Names that people bring from other caches (apt-cacher-ng, squid, approx, nginx) or write by guess, and the settings of cachesvc they mean.
 */
import { type ForeignNames, namesOf } from '../../config/settings.ts'

const noPassword = {
  says: 'the pages ask for no password; index.clients names the machines that may read them',
}
const logPlace = { says: 'the log goes to standard output, and with systemd to the journal' }

export const foreignNames: ForeignNames = {
  ...namesOf(
    'cache_directory',
    'directory',
    'cachedir',
    'cachepath',
    'cacheroot',
    'path',
    'storage',
  ),
  ...namesOf('listen_port', 'port', 'httpport', 'serverport', 'proxyport'),
  ...namesOf('listen_address', 'address', 'bind', 'bindaddress', 'bindhost', 'host', 'interface'),
  ...namesOf(
    'retention.size',
    'quota',
    'size',
    'maxsize',
    'cachesize',
    'maxcachesize',
    'totalsize',
  ),
  ...namesOf('retention.size', 'disksize', 'maxdisk', 'disklimit', 'sizelimit'),
  ...namesOf('retention.free', 'minfree', 'freespace'),
  ...namesOf('retention.object_size', 'maxobjectsize', 'maximumobjectsize', 'maxfilesize'),
  ...namesOf('retention.versions', 'keepversions', 'keepextraversions', 'maxversions'),
  ...namesOf('retention.unreferenced', 'exthreshold', 'unreferenceddays', 'expireunreferenced'),
  ...namesOf('limits.memory', 'memory', 'cachemem', 'memorylimit', 'maxmemory'),
  ...namesOf('limits.connections', 'maxconnections', 'maxclients'),
  ...namesOf('expiration.unused_days', 'expire', 'expiry', 'maxage', 'ttl', 'keepdays'),
  ...namesOf(
    'clients',
    'allow',
    'allowfrom',
    'allowedclients',
    'allowednetworks',
    'acl',
    'httpaccess',
  ),
  ...namesOf('domains', 'alloweddomains', 'allowedhosts', 'hosts', 'whitelist', 'allowlist'),
  ...namesOf('private_domains', 'privatehosts', 'internaldomains'),
  ...namesOf('passthrough_domains', 'passthrough', 'passthroughpattern', 'nocache', 'dontcache'),
  ...namesOf('ports', 'allowedports', 'allowuserports', 'safeports'),
  ...namesOf('connect_ports', 'sslports'),
  ...namesOf(
    'parent_proxy',
    'proxy',
    'upstream',
    'upstreamproxy',
    'httpproxy',
    'cachepeer',
    'parent',
  ),
  ...namesOf('archives', 'mirrors', 'backends'),
  ...namesOf('overrides.debian_server', 'debianmirror', 'mirror', 'remapdebrep'),
  ...namesOf('overrides.ubuntu_server', 'ubuntumirror', 'remapuburep'),
  ...namesOf('remap', 'rewrite', 'redirect', 'aliases'),
  ...namesOf('offline', 'offlinemode'),
  ...namesOf('suites.keyrings', 'keyring', 'trustedkeys'),
  ...namesOf('freshness.index', 'interval', 'refreshpattern'),
  ...namesOf('timeouts.connect', 'timeout', 'networktimeout', 'connecttimeout'),
  ...namesOf('index.hostnames', 'hostname', 'hostnames', 'servername', 'visiblehostname'),
  ...namesOf('https.intercept', 'sslbump', 'mitm', 'tlsintercept'),
  ...namesOf('log.level', 'loglevel', 'verbose', 'verboselog'),
  ...namesOf('log.access', 'accesslog'),
  ...namesOf(noPassword, 'password', 'adminauth', 'adminpassword', 'username'),
  ...namesOf(logPlace, 'logdir', 'logfile', 'logdirectory'),
}
