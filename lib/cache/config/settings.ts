/**
 * The settings of cachesvc.yaml, its larger groups in setting-groups.ts: key, kind, default and the manual's sentence, in the order
 * of the manual. This is the source of cachesvc.yaml(5), docs/configuration.md and the JSON Schema; `npm run manual` writes them.
 */
import { listenAddress, network } from '../../config/address-kinds.ts'
import { openProxyUrl } from '../../config/proxy-url.ts'
import { absolutePath, boolean, integer, oneOf, port, text } from '../../config/setting-kinds.ts'
import {
  group,
  listOf,
  listOfGroups,
  optionalSetting,
  orNothing,
  requiredSetting,
  setting,
} from '../../config/settings.ts'
import { settingsAt } from '../features/settings.ts'
import {
  archives,
  freshness,
  https,
  limits,
  retention,
  suites,
  timeouts,
  verification,
} from './setting-groups.ts'
import {
  addressFamilies,
  fieldText,
  hostName,
  hostOrNetwork,
  hostPattern,
  ipAddress,
  mirror,
  parentProxies,
  portOrRange,
  remapFrom,
  remapTo,
} from './setting-kinds.ts'

/** The port that auto-apt-proxy and users of apt-cacher-ng try first. */
export const defaultPort = 3142

/** Loopback, the private ranges of RFC 1918, 6598 and 4193, and link-local addresses. */
const nearbyNetworks = [
  '127.0.0.0/8',
  '::1/128',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '169.254.0.0/16',
  'fe80::/10',
  'fc00::/7',
]

const days = (most: number) => integer(0, most, 'a whole number of days')

export const settings = group('', {
  cache_directory: optionalSetting(
    absolutePath,
    '`$CACHESVC_CACHE_DIR`; else `/var/cache/cachesvc` when it can be written to or the user is root; else `$XDG_CACHE_HOME/cachesvc` or `~/.cache/cachesvc`, in whose absence commands other than `serve` use `/var/cache/cachesvc` if that is there',
  )
    .needsRestart()
    .says(
      'Directory of stored files and statistics. It is made if it does not exist. `--cache-dir` and `CACHESVC_CACHE_DIR` take precedence.',
      'The systemd unit may write only to `/var/cache/cachesvc`. For another directory, such as `/srv/cachesvc`: `sudo install -d -o cachesvc -g cachesvc -m 0750 /srv/cachesvc`, then `sudo systemctl edit cachesvc` with the lines `[Service]` and `ReadWritePaths=/srv/cachesvc`, then `sudo systemctl restart cachesvc`.',
    ),

  listen: optionalSetting(
    listOf(listenAddress, 'addresses with ports'),
    'made from `listen_address`, `listen_port` and `alternative_ports`',
    'listen:\n  - 192.0.2.1:3142\n  - "[2001:db8::1]:3142"',
  )
    .needsRestart('listen')
    .says(
      'Addresses to listen on. Write an IPv6 address in brackets. A port alone (`:3142` or `3142`) means all addresses of the machine. Port 0 lets the system choose.',
      'The examples on the setup page use the first address. `--listen` takes precedence over this setting, and sockets from systemd take precedence over both.',
    ),
  listen_address: optionalSetting(ipAddress, 'all addresses of the machine')
    .needsRestart('listen')
    .excludes('listen')
    .says('Address to listen on.'),
  listen_port: optionalSetting(port, `\`${defaultPort}\``)
    .needsRestart('listen')
    .excludes('listen')
    .says('Port to listen on.'),
  alternative_ports: setting(listOf(port, 'ports'), [])
    .needsRestart('listen')
    .excludes('listen')
    .says('More ports to listen on, at the same address.'),
  listen_port_secure: setting(integer(0, 65_535, 'a port'), 0)
    .needsRestart('listenSecure')
    .says(
      'Port of a TLS listener, for `Acquire::http::Proxy "https://…"`; 0 switches it off. Its certificate comes from the CA of the `https` settings, for the names and addresses of this machine, `index.hostnames` and `https.certificate_domain`. It listens at `listen_address`. A socket from systemd with the name `secure` replaces it.',
    ),

  domains: setting(
    listOf(hostPattern, 'host patterns'),
    [],
    'domains:\n  - archive.example.org\n  - .packages.example.org\n  - mirror.example.org:8080',
  ).says(
    'Hosts whose files are fetched and stored. `archive.example.org` is that host and nothing else, `.example.org` is that host and every host below it, `host:port` is that port only. A host listed here may have any address, private ones included.',
    'When this list and `passthrough_domains` are both empty, all hosts at public addresses are allowed. When one of them has a member, all other hosts are refused with 403.',
    'Note for files written for GoAPTCacher: there `example.org` also matched every name that ended in it. Here subdomains need the leading dot.',
  ),
  passthrough_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
    'Hosts whose files are fetched or tunnelled but never stored. This list takes precedence over `domains`.',
  ),
  private_domains: setting(
    listOf(hostOrNetwork, 'host patterns or networks'),
    [],
    'private_domains:\n  - repo.corp.example.org\n  - 192.0.2.7:8080\n  - 198.51.100.0/24',
  ).says(
    'Hosts that may have a private address, patterns as under `domains`. Their files are fetched and stored. Unlike `domains` this list refuses no other host: with it alone, all hosts at public addresses stay allowed.',
    'The addresses of a listed network, such as `198.18.0.0/15`, count as public: every allowed name may resolve to them, at the ports of `ports`. Use it where the resolver makes addresses up for all names, as some VPN and proxy programs do (fake-IP), and only where no machine in that network is to be protected from clients of this proxy.',
  ),
  clients: setting(
    listOf(network, 'networks'),
    nearbyNetworks,
    'clients:\n  - 127.0.0.0/8\n  - 192.0.2.0/24\n  - 2001:db8::/32',
  ).says(
    'Networks whose machines may use the proxy; others are refused with 403. The list replaces the default: name `127.0.0.0/8` too, for apt on this machine. The operations pages below `/_cachesvc/` are restricted by `index.clients`.',
  ),
  proxy_protocol: setting(
    listOf(network, 'networks'),
    [],
    'proxy_protocol: [192.0.2.10, 192.0.2.11]',
  ).says(
    'Load balancers whose connections begin with the PROXY protocol, version 2, by which they name their clients (HAProxy: `send-proxy-v2`). Every connection from these machines must then begin with it, except to `listen_secure`, and no connection from other machines may. `clients`, `index.clients`, the log and the statistics then see the client, not the load balancer. With a balancer that is not listed here, all clients behind it are one client with its address.',
  ),
  ports: setting(listOf(portOrRange, 'ports'), [80, 443], 'ports: [80, 443, 8000-8100]').says(
    'Ports of origins that are allowed for all hosts, each a number or a range. The list replaces the default: name 80 and 443 too. A port in a host pattern is allowed for that host.',
  ),
  connect_ports: setting(listOf(portOrRange, 'ports'), [443]).says(
    'Ports that are allowed for CONNECT, each a number or a range. The list replaces the default: name 443 too. A port in a host pattern is allowed for that host.',
  ),
  parent_proxy: optionalSetting(
    parentProxies,
    'none: origins are asked directly',
    'parent_proxy:\n  - url: http://branch.example.org:3128\n    only: [.corp.example.org]\n  - url: http://proxy.example.org:3128\n    except: [192.0.2.7]\n  - direct',
  )
    .needsRestart()
    .says(
      'HTTP proxy for requests to origins, tunnels included: its URL, or a group of `url`, `only` (the hosts that use it) and `except` (those that do not), patterns as under `domains`. The URL can have a user name and password, percent-encoded; they are never logged. The default port is 80.',
      'A list has up to eight parents. The next one is tried when one cannot be connected to within 3 seconds, is silent for 10 seconds, refuses the credentials (407), or answers 502, 503 or 504; such a parent is then passed over for 10 seconds, up to 5 minutes if it keeps failing. When all parents of a host fail, its requests fail, unless the list ends with the word `direct`.',
      'A 4xx of a parent other than 401, 404 and 410 counts as its own, and a stored file is served instead. The environment variables `http_proxy`, `https_proxy` and `no_proxy` have no effect.',
    ),
  address_family: setting(oneOf(...addressFamilies), 'any').says(
    'Which addresses of origins and parent proxies are used: those of IPv4, those of IPv6, or both. It is to cachesvc what `Acquire::ForceIPv4` and `Acquire::ForceIPv6` are to apt. An origin that is written as an address has that one. An address that takes connections and then misses a deadline comes last for some minutes whatever is set here. A reload changes it for new connections.',
  ),
  user_agent: optionalSetting(
    fieldText,
    '`Debian APT-HTTP/1.3 (cachesvc/VERSION)`',
    'user_agent: Debian APT-HTTP/1.3 (2.6.1)',
  ).says(
    'The `User-Agent` that origins receive. Some archives admit only the agent of apt and answer 403 to any other, so that of cachesvc begins like it. Requests that are passed through keep the agent of the client. A reload changes it.',
  ),
  via: setting(boolean, true).says(
    'Whether requests to origins have the field `Via`, by which servers learn that a proxy asks. Some refuse such requests. cachesvc finds by this field that a request came back to it: without it, caches that ask each other in a circle ask on until one of them reaches a time limit. Only targets that are addresses of this cachesvc are refused as a loop then. A reload changes it.',
  ),
  offline: setting(boolean, false).says(
    'Whether the proxy never contacts an origin. Stored files are served whatever their age, also those whose origin forbids it (`freshness.serve_stale`). A file that is not stored is answered 504, and so is a tunnel. For a site without a connection, see `cachesvc export`. A reload changes it.',
  ),

  remap: listOfGroups(
    'list of groups',
    {
      from: requiredSetting(remapFrom, 'a rule has both, from and to').says(
        'The requested place. A host, `archive.example.org` or `.example.org` with every host below it; a host with a path, `archive.example.org/debian`, and everything below that path; or a path alone, `/old/InRelease`, which is that one file on all hosts. With `http://` or `https://` in front the rule applies to that scheme only, with a port to that port only.',
      ),
      to: requiredSetting(remapTo, 'a rule has both, from and to').says(
        'The place to fetch from: a host, optionally with a port and a path. The rest of the path is appended. `http://` or `https://` in front sets the scheme; otherwise it is that of the request. A path alone is on the requested host.',
      ),
    },
    'remap:\n  - from: archive.example.com/debian\n    to: mirror.example.org/pub/debian\n  - from: http://packages.example.com\n    to: https://packages.example.com',
  ).says(
    'Rules that fetch requests for `from` from `to`. Files are stored under `to`, so two names of one archive share stored files. The first rule that fits applies, before `overrides`. Both places must be allowed: list private ones under `private_domains`, and public ones under `domains` if that is set.',
    'When a rule changes the host, the credentials of the request are not sent. Tunnels are not routed, because their requests cannot be read.',
    'Note for files written for GoAPTCacher: there a rule could only have paths.',
  ),
  archives,
  redirects: setting(oneOf('follow', 'pass'), 'follow').says(
    'Which side follows redirects of origins. `follow`: the proxy follows them, and stores the file under the name that was asked for. `pass`: the client gets the redirect and asks for the place it names.',
    'With `follow` the files of one update can come from mirrors that are not equally up to date. With `pass` each request costs a question to the origin, nothing is served when that origin fails, each mirror is stored separately and must be allowed, and a redirect to `https://` goes through a tunnel.',
  ),
  overrides: group('Mirrors that replace the distributions’ own hosts.', {
    ubuntu_server: setting(
      orNothing(mirror),
      '',
      'overrides:\n  ubuntu_server: mirror.example.org',
    ).says(
      'Mirror, with or without a path, that replaces archive.ubuntu.com and all hosts below it, such as the mirrors of countries. Its path is put before the requested path. security.ubuntu.com is not replaced.',
    ),
    debian_server: setting(orNothing(mirror), '').says(
      'Mirror, with or without a path, that replaces the hosts below debian.org for all files in `/debian/`: `ftp.*.debian.org` and the others that have it. Its path is put before the requested path. The hosts of past releases (`archive`) and of dated ones (`snapshot`) are not replaced.',
      'The security archive is separate: with this setting `/debian-security/` on these hosts is fetched from security.debian.org if that host is allowed, otherwise from the requested host.',
    ),
    mirrors: optionalSetting(
      absolutePath,
      'what `mirrors.yaml` among the examples of the package has',
      'overrides:\n  mirrors: /etc/cachesvc/mirrors.yaml\n  debian_server: mirror.example.org',
    ).says(
      'File that lists the mirrors of an archive, instead of the built-in list: their files are stored once, and one host (`to`) is asked instead of all others. `mirrors.yaml`, among the examples of the package, is the built-in list and explains the form. A reload reads the file again.',
    ),
  }),

  https,

  index: group('The operations pages.', {
    enable: setting(boolean, true).says(
      'No effect; kept for compatibility. The pages and the API are always on.',
    ),
    hostnames: setting(listOf(hostName, 'host names'), []).says(
      'Names of this proxy. The examples of the setup page and its script use the first one. Without names they use the name or address of this machine that the client asked by, unless it is loopback; else the address of a listener that is bound to one; else the first IPv4 address that is not loopback.',
    ),
    proxies: setting(
      listOf(openProxyUrl, 'URLs', 8),
      [],
      'index:\n  proxies: [http://cache1.example.org:3142, http://cache2.example.org:3142]',
    ).says(
      'All proxies that clients may use, this one included, in the order in which clients try them. The script of the setup page and its detection script have the whole list: apt uses the first proxy that answers and allows the machine. All of these proxies may have the same list. Without the list, clients know only this proxy.',
    ),
    activity: setting(boolean, true).says(
      'Whether the overview shows running downloads, and recent requests and problems with the addresses of clients. All machines that reach the pages can read it.',
    ),
    clients: setting(listOf(network, 'networks'), [], 'index:\n  clients: [192.0.2.0/28]').says(
      'Networks whose machines may read the overview, the pages Cache, Statistics and Explain, `/_cachesvc/api/stats` and `/_cachesvc/metrics`; others get 403 there. An empty list means all machines. The setup page, its script, the certificates and `/_cachesvc/healthz` answer all machines that can connect. The pages ask for no password. If you want one, put a reverse proxy in front that asks for it, and name only its address here.',
    ),
    contact: setting(text, '').says(
      'Contact shown on the index page. It is plain text: markup is not interpreted.',
    ),
  }),

  expiration: group('What is removed from the cache.', {
    unused_days: setting(days(36_500), 90).says(
      'Days without a request after which a stored file is removed; 0 keeps files for ever.',
      'The default is longer than the time between two point releases of a stable distribution. So packages that a site installs now and then stay, and packages it no longer uses do not fill the disk. GoAPTCacher keeps all files by default.',
    ),
  }),

  suites,
  ...settingsAt('root'),
  retention,
  verification,
  freshness,
  timeouts,
  limits,

  log: group('The log, JSON lines on standard output.', {
    level: setting(oneOf('debug', 'info', 'warn', 'error'), 'info').says(
      'Lowest level that is written.',
    ),
    access: setting(boolean, true).says('Whether each request is logged.'),
  }),

  mdns: setting(boolean, false)
    .needsRestart()
    .says(
      'Whether the proxy is announced with multicast DNS, as a service `_apt_proxy._tcp` of the local network with the port of the first listener. `squid-deb-proxy-client` and others that ask Avahi find it so. Each machine of the network can announce such a service: clients that look for one trust their network, and apt checks signatures. A listener only for this machine is not announced.',
    ),
})

interface FormerSetting {
  readonly sentence: string
  /** Whether a file that gives it a value is refused, because the operator has to do something in its place. */
  readonly refused: boolean
}

/** Settings of earlier versions and of GoAPTCacher that no longer exist, by their paths. */
export const formerSettings: Readonly<Record<string, FormerSetting>> = {
  'index.password': {
    sentence:
      'no longer there: the pages ask for no password; remove the line, and name under index.clients the machines that may read them',
    refused: true,
  },
  'shared_store.peer_url': {
    sentence:
      'no longer there: nodes do not read from each other; remove the line, and have the balancer hash by URL, so that each file is fetched by one node (docs/several-machines.md)',
    refused: true,
  },
  debug: {
    sentence: 'is not read: there is no debugging listener; see log.level and /_cachesvc/metrics',
    refused: false,
  },
}
