/**
 * Every setting of cachesvc.yaml: key, kind, default and the manual's sentence, in the order of the manual. This is the
 * source of cachesvc.yaml(5), docs/configuration.md and the JSON Schema; `npm run manual` writes them.
 */
import { listenAddress, network } from '../../config/address-kinds.ts'
import { absolutePath, boolean, integer, oneOf, port, text } from '../../config/setting-kinds.ts'
import {
  group,
  listOf,
  listOfGroups,
  optional,
  orNothing,
  required,
  setting,
} from '../../config/settings.ts'
import { freshness, limits, timeouts, verification } from './setting-bounds.ts'
import { https } from './setting-https.ts'
import {
  hostName,
  hostPattern,
  ipAddress,
  mirror,
  parentProxy,
  remapFrom,
  remapTo,
} from './setting-kinds.ts'

/** The port auto-apt-proxy and apt-cacher-ng's users look at first. */
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
  cache_directory: optional(
    absolutePath,
    '`$CACHESVC_CACHE_DIR`; else `/var/cache/cachesvc` when it can be written to or the user is root; else `$XDG_CACHE_HOME/cachesvc` or `~/.cache/cachesvc`',
  ).says(
    'Where stored objects and statistics live. The directory is made when it is not there. `--cache-dir` and `CACHESVC_CACHE_DIR` win over this setting.',
  ),

  listen: optional(
    listOf(listenAddress, 'addresses with ports'),
    'made from `listen_address`, `listen_port` and `alternative_ports`',
    'listen:\n  - 192.0.2.1:3142\n  - "[2001:db8::1]:3142"',
  ).says(
    'Addresses to listen on. An IPv6 address stands in brackets; without an address (`:3142` or `3142`) it is every address of the machine. Port 0 lets the system choose.',
    'The first one is the address examples on the setup page name. `--listen` wins over this setting, and sockets handed over by systemd win over both.',
  ),
  listen_address: optional(ipAddress, 'every address of the machine').says(
    'The one address to listen on. Not together with `listen`.',
  ),
  listen_port: optional(port, `\`${defaultPort}\``).says(
    'The port to listen on. Not together with `listen`.',
  ),
  alternative_ports: setting(listOf(port, 'ports'), []).says(
    'More ports to listen on, at the same address. Not together with `listen`.',
  ),
  listen_port_secure: setting(integer(0, 65_535, 'a port'), 0).says(
    'The port of a listener that clients speak TLS to, for `Acquire::http::Proxy "https://…"`; 0 is none. Its certificate comes from the CA of the `https` settings, for the names and addresses of this machine, `index.hostnames` and `https.certificate_domain`. It listens at `listen_address`. A socket that systemd hands over under the name `secure` takes its place.',
  ),

  domains: setting(
    listOf(hostPattern, 'host patterns'),
    [],
    'domains:\n  - archive.example.org\n  - .packages.example.org\n  - mirror.example.org:8080',
  ).says(
    'Hosts whose files are fetched and stored. `archive.example.org` is that host and nothing else, `.example.org` is that host and every host below it, `host:port` is that port only. A host listed here is trusted as written, wherever its address is.',
    'When this list and `passthrough_domains` are both empty, every host at a public address may be fetched from. As soon as one of them has a member, all other hosts are refused with 403.',
    'Note for files written for GoAPTCacher: there `example.org` also matched every name that ended in it. Here subdomains need the leading dot.',
  ),
  passthrough_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
    'Hosts that are fetched from or tunnelled to, but never stored. They win over `domains`.',
  ),
  clients: setting(
    listOf(network, 'networks'),
    nearbyNetworks,
    'clients:\n  - 127.0.0.0/8\n  - 192.0.2.0/24\n  - 2001:db8::/32',
  ).says(
    'Networks whose machines may use the proxy; others are refused with 403. The operations pages below `/_cachesvc/` answer every client that can connect: keep them in with a firewall.',
  ),
  ports: setting(listOf(port, 'ports'), [80, 443]).says(
    'Ports of origins that may be fetched from without being named in `domains` or `passthrough_domains`.',
  ),
  connect_ports: setting(listOf(port, 'ports'), [443]).says(
    'Ports that CONNECT may reach. A port named in a host pattern is allowed for that host.',
  ),
  parent_proxy: optional(
    parentProxy,
    'none: origins are asked directly',
    'parent_proxy: http://proxy.example.org:3128',
  ).says(
    'An HTTP proxy that every request to an origin, tunnels included, goes through. A user name and password may stand in the URL, percent-encoded; they are never logged. The port is 80 unless it is given.',
  ),

  remap: listOfGroups(
    'list of groups',
    {
      from: required(remapFrom, 'a rule has both, from and to').says(
        'What is asked for. A host, `archive.example.org` or `.example.org` with every host below it; a host with a path, `archive.example.org/debian`, and what lies below that path; or a path alone, `/old/InRelease`, which is that one file of every host. `http://` or `https://` in front makes the rule one for that scheme, a port one for that port.',
      ),
      to: required(remapTo, 'a rule has both, from and to').says(
        'Where it is fetched from: a host, with a port and a path if need be. The rest of the path is appended. With `http://` or `https://` in front it is fetched with that scheme, else with the one asked for. A path alone is one of the host that was asked.',
      ),
    },
    'remap:\n  - from: archive.example.com/debian\n    to: mirror.example.org/pub/debian\n  - from: http://packages.example.com\n    to: https://packages.example.com',
  ).says(
    'Requests for `from` are answered with what is found at `to`, and stored under that name: two names of one archive share what is stored. The first rule that fits decides, before `overrides`, and none is applied twice. The client must be allowed to reach both ends: list them in `domains`.',
    'Credentials of a request for another host are not passed on. Tunnels are not routed: what is inside cannot be read.',
    'Note for files written for GoAPTCacher: there only paths could be given.',
  ),
  overrides: group('Mirrors that are asked in place of the distributions’ own hosts.', {
    ubuntu_server: setting(
      orNothing(mirror),
      '',
      'overrides:\n  ubuntu_server: mirror.example.org',
    ).says(
      'Host, with or without a path, asked in place of archive.ubuntu.com and every host below it, such as the mirrors of countries. The path is put before the path asked for. security.ubuntu.com stays what it is.',
    ),
    debian_server: setting(orNothing(mirror), '').says(
      'Host, with or without a path, asked in place of the hosts below debian.org for everything in their `/debian/`: `ftp.*.debian.org` and the others that carry it. The path is put before the path asked for. The hosts of past releases (`archive`) and of dated ones (`snapshot`) stay what they are.',
      'The security archive is kept apart: with this setting, `/debian-security/` on those hosts is fetched from security.debian.org, if that may be reached, and otherwise from where it was asked for.',
    ),
  }),

  https,

  index: group('The operations pages.', {
    enable: setting(boolean, true).says(
      'Kept for compatibility. The pages and the API answer regardless.',
    ),
    hostnames: setting(listOf(hostName, 'host names'), []).says(
      'Names this proxy goes by. The first is the host in the examples of the setup page; without one it is the first IPv4 address of the machine that is not loopback.',
    ),
    contact: setting(text, '').says(
      'Whom to ask, shown on the index page. It is text: markup is shown as it is written.',
    ),
  }),

  expiration: group('What is removed from the cache.', {
    unused_days: setting(days(36_500), 90).says(
      'Stored objects without a request for so many days are removed; 0 keeps them for ever.',
      'Three months are longer than the time between two point releases of a stable distribution, so what a site installs now and then stays, and what it left behind does not fill the disk. GoAPTCacher keeps everything by default.',
    ),
  }),

  verification,
  freshness,
  timeouts,
  limits,

  log: group('The log, JSON lines on standard output.', {
    level: setting(oneOf('debug', 'info', 'warn', 'error'), 'info').says(
      'The least severe lines written.',
    ),
    access: setting(boolean, true).says('Whether every request is logged.'),
  }),

  mdns: setting(boolean, false).says(
    'Not supported: the proxy is not announced with multicast DNS, and a file that asks for it gets a warning. The setup page has DNS records by which clients find the proxy.',
  ),
  debug: group(
    'GoAPTCacher’s debugging settings. They are read and have no effect: see `log.level`.',
    {
      enable: setting(boolean, false).says('No effect.'),
      allow_remote: setting(boolean, false).says('No effect.'),
      log_interval_seconds: setting(integer(0, 1_000_000), 60).says('No effect.'),
      pprof: group('No effect.', {
        enable: setting(boolean, false).says('No effect.'),
        directory: setting(text, '').says('No effect.'),
        interval_seconds: setting(integer(0, 1_000_000), 60).says('No effect.'),
        retain: setting(integer(0, 1_000_000), 0).says('No effect.'),
      }),
    },
  ),
})

/** Settings of GoAPTCacher that are taken and change nothing, with the reason a file that uses them is told. */
export const withoutEffect: Readonly<Record<string, string>> = {
  mdns: 'is not supported: nothing is announced with multicast DNS; the setup page has DNS records that clients find the proxy by',
  'debug.enable':
    'is not supported: there is no debugging listener; see log.level and /_cachesvc/metrics',
  'debug.pprof.enable':
    'is not supported: profiles are written by the tools of Node.js, not by the service',
}
