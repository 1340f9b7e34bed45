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
  cache_directory: optional(absolutePath, {
    defaultText:
      '`$CACHESVC_CACHE_DIR`; else `/var/cache/cachesvc` when it can be written to or the user is root; else `$XDG_CACHE_HOME/cachesvc` or `~/.cache/cachesvc`',
    manual:
      'Where stored objects and statistics live. The directory is made when it is not there. `--cache-dir` and `CACHESVC_CACHE_DIR` win over this setting.',
  }),

  listen: optional(listOf(listenAddress, 'addresses with ports'), {
    defaultText: 'made from `listen_address`, `listen_port` and `alternative_ports`',
    manual: [
      'Addresses to listen on. An IPv6 address stands in brackets; without an address (`:3142` or `3142`) it is every address of the machine. Port 0 lets the system choose.',
      'The first one is the address examples on the setup page name. `--listen` wins over this setting, and sockets handed over by systemd win over both.',
    ],
    example: 'listen:\n  - 192.0.2.1:3142\n  - "[2001:db8::1]:3142"',
  }),
  listen_address: optional(ipAddress, {
    defaultText: 'every address of the machine',
    manual: 'The one address to listen on. Not together with `listen`.',
  }),
  listen_port: optional(port, {
    defaultText: `\`${defaultPort}\``,
    manual: 'The port to listen on. Not together with `listen`.',
  }),
  alternative_ports: setting(listOf(port, 'ports'), {
    default: [],
    manual: 'More ports to listen on, at the same address. Not together with `listen`.',
  }),
  listen_port_secure: setting(integer(0, 65_535, 'a port'), {
    default: 0,
    manual:
      'The port of a listener that clients speak TLS to, for `Acquire::http::Proxy "https://…"`; 0 is none. Its certificate comes from the CA of the `https` settings, for the names and addresses of this machine, `index.hostnames` and `https.certificate_domain`. It listens at `listen_address`. A socket that systemd hands over under the name `secure` takes its place.',
  }),

  domains: setting(listOf(hostPattern, 'host patterns'), {
    default: [],
    manual: [
      'Hosts whose files are fetched and stored. `archive.example.org` is that host and nothing else, `.example.org` is that host and every host below it, `host:port` is that port only. A host listed here is trusted as written, wherever its address is.',
      'When this list and `passthrough_domains` are both empty, every host at a public address may be fetched from. As soon as one of them has a member, all other hosts are refused with 403.',
      'Note for files written for GoAPTCacher: there `example.org` also matched every name that ended in it. Here subdomains need the leading dot.',
    ],
    example:
      'domains:\n  - archive.example.org\n  - .packages.example.org\n  - mirror.example.org:8080',
  }),
  passthrough_domains: setting(listOf(hostPattern, 'host patterns'), {
    default: [],
    manual:
      'Hosts that are fetched from or tunnelled to, but never stored. They win over `domains`.',
  }),
  clients: setting(listOf(network, 'networks'), {
    default: nearbyNetworks,
    manual:
      'Networks whose machines may use the proxy; others are refused with 403. The operations pages below `/_cachesvc/` answer everybody who can connect: keep them in with a firewall.',
    example: 'clients:\n  - 127.0.0.0/8\n  - 192.0.2.0/24\n  - 2001:db8::/32',
  }),
  ports: setting(listOf(port, 'ports'), {
    default: [80, 443],
    manual:
      'Ports of origins that may be fetched from without being named in `domains` or `passthrough_domains`.',
  }),
  connect_ports: setting(listOf(port, 'ports'), {
    default: [443],
    manual:
      'Ports that CONNECT may reach. A port named in a host pattern is allowed for that host.',
  }),
  parent_proxy: optional(parentProxy, {
    defaultText: 'none: origins are asked directly',
    manual:
      'An HTTP proxy that every request to an origin, tunnels included, goes through. A user name and password may stand in the URL, percent-encoded; they are never logged. The port is 80 unless it is given.',
    example: 'parent_proxy: http://proxy.example.org:3128',
  }),

  remap: listOfGroups(
    {
      from: required(remapFrom, {
        missing: 'a rule has both, from and to',
        manual: [
          'What is asked for. A host, `archive.example.org` or `.example.org` with every host below it; a host with a path, `archive.example.org/debian`, and what lies below that path; or a path alone, `/old/InRelease`, which is that one file of every host. `http://` or `https://` in front makes the rule one for that scheme, a port one for that port.',
        ],
      }),
      to: required(remapTo, {
        missing: 'a rule has both, from and to',
        manual:
          'Where it is fetched from: a host, with a port and a path if need be. The rest of the path is appended. With `http://` or `https://` in front it is fetched with that scheme, else with the one asked for. A path alone is one of the host that was asked.',
      }),
    },
    {
      kind: 'list of groups',
      manual: [
        'Requests for `from` are answered with what is found at `to`, and stored under that name: two names of one archive share what is stored. The first rule that fits decides, before `overrides`, and none is applied twice. The client must be allowed to reach both ends: list them in `domains`.',
        'Credentials of a request for another host are not passed on. Tunnels are not routed: what is inside cannot be read.',
        'Note for files written for GoAPTCacher: there only paths could be given.',
      ],
      example:
        'remap:\n  - from: archive.example.com/debian\n    to: mirror.example.org/pub/debian\n  - from: http://packages.example.com\n    to: https://packages.example.com',
    },
  ),
  overrides: group('Mirrors that are asked in place of the distributions’ own hosts.', {
    ubuntu_server: setting(orNothing(mirror), {
      default: '',
      manual:
        'Host, with or without a path, asked in place of archive.ubuntu.com and every host below it, such as the mirrors of countries. The path is put before the path asked for. security.ubuntu.com stays what it is.',
      example: 'overrides:\n  ubuntu_server: mirror.example.org',
    }),
    debian_server: setting(orNothing(mirror), {
      default: '',
      manual: [
        'Host, with or without a path, asked in place of the hosts below debian.org for everything in their `/debian/`: `ftp.*.debian.org` and the others that carry it. The path is put before the path asked for. The hosts of past releases (`archive`) and of dated ones (`snapshot`) stay what they are.',
        'The security archive is kept apart: with this setting, `/debian-security/` on those hosts is fetched from security.debian.org, if that may be reached, and otherwise from where it was asked for.',
      ],
    }),
  }),

  https,

  index: group('The operations pages.', {
    enable: setting(boolean, {
      default: true,
      manual: 'Kept for compatibility. The pages and the API answer regardless.',
    }),
    hostnames: setting(listOf(hostName, 'host names'), {
      default: [],
      manual:
        'Names this proxy goes by. The first is the host in the examples of the setup page; without one it is the first IPv4 address of the machine that is not loopback.',
    }),
    contact: setting(text, {
      default: '',
      manual: 'Whom to ask, shown on the index page. It is text: markup is shown as it is written.',
    }),
  }),

  expiration: group('What is removed from the cache.', {
    unused_days: setting(days(36_500), {
      default: 90,
      manual: [
        'Stored objects that nobody asked for in so many days are removed; 0 keeps them for ever.',
        'Three months are longer than the time between two point releases of a stable distribution, so what a site installs now and then stays, and what it left behind does not fill the disk. GoAPTCacher keeps everything by default.',
      ],
    }),
  }),

  verification,
  freshness,
  timeouts,
  limits,

  log: group('The log, JSON lines on standard output.', {
    level: setting(oneOf('debug', 'info', 'warn', 'error'), {
      default: 'info',
      manual: 'The least severe lines written.',
    }),
    access: setting(boolean, { default: true, manual: 'Whether every request is logged.' }),
  }),

  mdns: setting(boolean, {
    default: false,
    manual:
      'Not supported: the proxy is not announced with multicast DNS, and a file that asks for it gets a warning. The setup page has DNS records by which clients find the proxy.',
  }),
  debug: group(
    'GoAPTCacher’s debugging settings. They are read and have no effect: see `log.level`.',
    {
      enable: setting(boolean, { default: false, manual: 'No effect.' }),
      allow_remote: setting(boolean, { default: false, manual: 'No effect.' }),
      log_interval_seconds: setting(integer(0, 1_000_000), { default: 60, manual: 'No effect.' }),
      pprof: group('No effect.', {
        enable: setting(boolean, { default: false, manual: 'No effect.' }),
        directory: setting(text, { default: '', manual: 'No effect.' }),
        interval_seconds: setting(integer(0, 1_000_000), { default: 60, manual: 'No effect.' }),
        retain: setting(integer(0, 1_000_000), { default: 0, manual: 'No effect.' }),
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
