/**
 * Names that people bring from other caches (apt-cacher-ng, squid, approx, nginx) or write by guess, and the settings of cachesvc they mean.
 */
import type { ForeignNames } from '../../config/settings.ts'

/** Several names of one setting. */
const names = (setting: string, ...all: readonly string[]): ForeignNames =>
  Object.fromEntries(all.map(name => [name, setting]))

export const foreignNames: ForeignNames = {
  ...names('cache_directory', 'directory', 'cachedir', 'cachepath', 'cacheroot', 'path', 'storage'),
  ...names('listen_port', 'port', 'httpport', 'serverport', 'proxyport'),
  ...names('listen_address', 'address', 'bind', 'bindaddress', 'bindhost', 'host', 'interface'),
  ...names('retention.size', 'quota', 'size', 'maxsize', 'cachesize', 'maxcachesize', 'totalsize'),
  ...names('retention.size', 'disksize', 'maxdisk', 'disklimit', 'sizelimit'),
  ...names('retention.free', 'minfree', 'freespace'),
  ...names('retention.object_size', 'maxobjectsize', 'maximumobjectsize', 'maxfilesize'),
  ...names('retention.versions', 'keepversions', 'keepextraversions', 'maxversions'),
  ...names('limits.memory', 'memory', 'cachemem', 'memorylimit', 'maxmemory'),
  ...names('limits.connections', 'maxconnections', 'maxclients'),
  ...names(
    'expiration.unused_days',
    'exthreshold',
    'expire',
    'expiry',
    'maxage',
    'ttl',
    'keepdays',
  ),
  ...names(
    'clients',
    'allow',
    'allowfrom',
    'allowedclients',
    'allowednetworks',
    'acl',
    'httpaccess',
  ),
  ...names('domains', 'alloweddomains', 'allowedhosts', 'hosts', 'whitelist', 'allowlist'),
  ...names('private_domains', 'privatehosts', 'internaldomains'),
  ...names('passthrough_domains', 'passthrough', 'passthroughpattern', 'nocache', 'dontcache'),
  ...names('ports', 'allowedports', 'allowuserports', 'safeports'),
  ...names('connect_ports', 'sslports'),
  ...names(
    'parent_proxy',
    'proxy',
    'upstream',
    'upstreamproxy',
    'httpproxy',
    'cachepeer',
    'parent',
  ),
  ...names('archives', 'mirrors', 'backends'),
  ...names('overrides.debian_server', 'debianmirror', 'mirror', 'remapdebrep'),
  ...names('overrides.ubuntu_server', 'ubuntumirror', 'remapuburep'),
  ...names('remap', 'rewrite', 'redirect', 'aliases'),
  ...names('offline', 'offlinemode'),
  ...names('suites.keyrings', 'keyring', 'trustedkeys'),
  ...names('freshness.index', 'interval', 'refreshpattern'),
  ...names('timeouts.connect', 'timeout', 'networktimeout', 'connecttimeout'),
  ...names('index.hostnames', 'hostname', 'hostnames', 'servername', 'visiblehostname'),
  ...names('https.intercept', 'sslbump', 'mitm', 'tlsintercept'),
  ...names('log.level', 'loglevel', 'verbose', 'verboselog'),
  ...names('log.access', 'accesslog'),
  ...Object.fromEntries(
    ['password', 'adminauth', 'adminpassword', 'username'].map(name => [
      name,
      {
        says: 'the pages ask for no password; index.clients names the machines that may read them',
      },
    ]),
  ),
  ...Object.fromEntries(
    ['logdir', 'logfile', 'logdirectory'].map(name => [
      name,
      { says: 'the log goes to standard output, and with systemd to the journal' },
    ]),
  ),
}
