/**
 * Groups of settings of cachesvc.yaml: archives and their indexes, storage, time limits and other bounds, HTTPS.
 */
import { network } from '../../config/address-kinds.ts'
import { secretPlace } from '../../config/secret-place.ts'
import {
  absolutePath,
  boolean,
  duration,
  integer,
  oneOf,
  secretText,
  size,
} from '../../config/setting-kinds.ts'
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
import { addressFamilies, hostName, hostPattern, httpUrl, mirror } from './setting-kinds.ts'

export const archives = listOfGroups(
  'list of groups',
  {
    origins: requiredSetting(
      listOf(mirror, 'places', 16),
      'an archive has at least one origin, the preferred one first',
    ).says(
      'Places that have the same files, the preferred one first: a host, optionally with a port and a path, and with `http://` or `https://` in front. All must be allowed: list private ones under `private_domains`, and public ones under `domains` if that is set.',
      'Requests for any of them are fetched from the first one and stored under its name. When it fails, refuses, has no such file or is silent for ten seconds, the next one is asked. A transfer that breaks off goes on from the next one.',
    ),
    verify: setting(oneOf('prefer', 'require', 'off'), 'prefer').says(
      'What a Release file must be before its indexes are used. `require`: signed by a known key, not past its `Valid-Until`, not older than the earlier one. `prefer`: not wrongly signed by a known key, not older than the earlier one, and not unsigned if the earlier one was signed; without a keyring and for unknown keys it counts. `off`: files of this archive are not compared with its indexes.',
    ),
    signed_by: setting(listOf(absolutePath, 'paths'), []).says(
      'Keyrings of this archive, files or directories, instead of `suites.keyrings`.',
    ),
    ...settingsAt('archives'),
    redirects: optionalSetting(oneOf('follow', 'pass'), 'that of `redirects`').says(
      'Which side follows redirects of this archive, as with `redirects`.',
    ),
    connections: optionalSetting(
      integer(1, 10_000),
      'that of `limits.origin_connections`',
      'archives:\n  - origins: [archive.example.org/debian]\n    connections: 2',
    ).says(
      'Maximum number of connections to each origin of this archive at a time, instead of `limits.origin_connections`. Without this setting cachesvc adapts: when an origin refuses some of several connections, it gets half as many, and one more each minute.',
    ),
    address_family: optionalSetting(oneOf(...addressFamilies), 'that of `address_family`').says(
      'Which addresses of the origins of this archive are used, as with `address_family`.',
    ),
    clients: setting(listOf(network, 'networks'), []).says(
      'Networks whose machines may have files of this archive, among those of `clients`; others are refused with 403, whether a file is stored or not. An empty list means all of `clients`.',
    ),
    credentials: optionalSetting(secretPlace, 'none').says(
      'File with the credentials of this proxy for the origins, in the form of apt’s auth.conf: `machine archive.example.org/path login NAME password PASSWORD`; or `credential:NAME` for a credential of systemd. A line without `http://` is for https. Needs `archives[].clients`: only those clients get the files (`docs/paid-archives.md`).',
      'The credentials go only to the host of the line, below its path: never along a redirect to another host, nor to a parent proxy over http. A reload reads the file again.',
    ),
    store: setting(oneOf('permitted', 'always'), 'permitted').says(
      'Which responses of this archive are stored. `permitted`: those whose fields allow it. `always`: those with `Cache-Control: private` or `no-store` and those with `Vary: *` too. Some package servers mark each file so, and then each machine fetches each file from them. cachesvc asks for what it stores without credentials, so each of its clients would get the same. Use it for an archive whose owner agrees.',
    ),
  },
  'archives:\n  - origins: [archive.example.org/debian, mirror.example.net/pub/debian]',
).says(
  'Archives with several mirrors, and what is special about an archive. The rules of `remap` apply before.',
)

export const suites = group(
  'Files are compared with what the indexes of their archive say: a file that is fetched while it streams, a stored file before it is served. A response with other content is cut off before its end and not stored. This begins when a Release file and an index that it names are in the store.',
  {
    keyrings: setting(listOf(absolutePath, 'paths'), [
      '/etc/apt/trusted.gpg.d',
      '/etc/apt/keyrings',
      '/usr/share/keyrings',
    ]).says(
      'Files and directories of OpenPGP public keys, armoured or not, with which Release files are checked. In a directory, files that end in `.gpg`, `.asc` or `.pgp` are read. Missing files and directories are skipped.',
    ),
    memory: setting(size('1M', '64G'), '64M')
      .needsRestart()
      .says(
        'Memory for what indexes say. An index of 60,000 packages takes 3.3 MB; what does not fit is read from disk when it is needed.',
      ),
    ...settingsAt('suites'),
    update: setting(duration('0s', '25s'), '8s').says(
      'How long a client waits for a new Release file while its indexes are fetched; then it gets the earlier one with its indexes. Packages and Sources that most clients use hold a new Release file back for ten minutes at most, other files for half of this time. apt gives up after 30 seconds.',
    ),
    gone_after: setting(duration('0s', '30d'), '1h').says(
      'How long an origin must lack both InRelease and Release of a suite that it had before clients see that. Until then it counts as broken, and clients get the stored files; `0s` believes it at once. When an origin refuses a Release file that a known key had signed, clients that go on without one get the stored files for the same time.',
    ),
    snapshot_days: setting(integer(0, 3650), 0).says(
      'Days for which the Release files and indexes of a suite are kept after newer ones have come, so that `/_cachesvc/snapshot/` can serve them. Of each day (UTC) the last ones are kept. The three before the newest are kept in any case. Packages are kept as `retention` and `expiration` say.',
    ),
    wait: setting(duration('0s', '20s'), '5s').says(
      'How long the last block of a file waits for an index that may name it and is still being read, and how long storing an index may take. After that the file is sent and stored without being compared, and the log says so; it is compared when it is next asked for. apt compares it in any case.',
    ),
  },
)

export const retention = group(
  'How much is kept. Changes take effect with a reload: what is then too much is removed in the background. The files that clients have not asked for longest go first; those that no stored index names go before the others. `cachesvc retention --dry-run` lists what goes next, and why. After each sweep, and when room was made, a line in the log says how many files went for which reason.',
  {
    size: setting(size('0', '1024T'), '0').says(
      'Maximum bytes of stored files, downloads under way included; 0 is no limit. A file that fits once room is made waits up to five seconds for it. A file larger than half of it is passed through and not stored.',
    ),
    free: optionalSetting(
      size('0', '1024T'),
      'a fiftieth of the file system, at most `1G`',
      'retention:\n  free: 20G',
    ).says(
      'Bytes of the file system that stay free. When less is free, stored files are removed, also when other programs have filled it. When removing all of them would not be enough, none is removed, what does not fit is not stored, and the log has a warning.',
    ),
    object_size: setting(size('0', '1024T'), '0').says(
      'Largest file that is stored; 0 is no limit. Larger ones are passed through.',
    ),
    versions: setting(integer(0, 1000), 0).says(
      'Newest versions of a package that are kept, for each directory and architecture; 0 keeps all. Older ones go with the daily sweep, unless a client asked for them in the last seven days or a stored index names them.',
    ),
    unreferenced: setting(duration('0s', '3650d'), '0s', 'retention:\n  unreferenced: 30d').says(
      'Time after which packages and source files that no index of their archive names are removed; `0s` keeps them. A file goes when no client has asked for it in that time either. It stays while a kept generation (snapshots, delays) or a recorded build names it, and if its index is not known here.',
    ),
  },
)

export const verification = group(
  'Regular checks of all stored files: indexes against their Release files, packages against indexes, content against its digest. A wrong file is logged as a repository-verification warning and removed, so that the next request fetches it again. `cachesvc verify-repos` runs a check at once.',
  {
    ...settingsAt('verification'),
    max_age: setting(duration('0s', '365d'), '1d').says(
      'Age after which the last check of a stored file is too old: the file is hashed again while a client reads it from the disk, and the client gets the last bytes when the digest is right, or when that is not known after ten seconds. It is also hashed at the first reading after a start. The regular verification counts as a check.',
    ),
  },
)

export const freshness = group(
  'Times for which a stored file is served without asking the origin. The origin is not asked again about files named by their hash, nor about files in a pool that an adopted index names.',
  {
    index: setting(duration('0s', '1d'), '1m').says(
      'Freshness of indexes, Release files and other files below `dists/`, for clients that do not ask for validation.',
    ),
    other: setting(duration('0s', '365d'), '1h').says(
      'Freshness of files that are neither indexes nor immutable, for clients that do not ask for validation; a tenth of the age a file had when the origin was last asked, if that is less and the origin states no time (RFC 9111 section 4.2.2). Files in a pool that no adopted index names are fresh for this time whatever their age, because some archives rebuild packages under the old name.',
    ),
    negative: setting(duration('0s', '1h'), '5s').says(
      'Time for which a 404 of the origin is remembered, except for InRelease, Release and Release.gpg.',
    ),
    floor: setting(duration('0s', '5m'), '5s').says(
      'Freshness of files for clients that ask for validation. apt asks for it with each index (`max-age=0`), and many machines ask in the same second. Where no index is compared (`verify: off`, or a Release file that may not be adopted), the origin is asked for each Release file and index.',
    ),
    serve_stale: setting(oneOf('always', 'permitted'), 'always').says(
      'Whether stale files are served when the origin fails or is slow. With `permitted` an origin may forbid it, by `must-revalidate`, `proxy-revalidate`, `s-maxage` or `no-cache` (RFC 9111 section 4.2.4), and clients get 504 instead. `always` ignores that: a signed archive itself says when it is too old, and machines can go on installing.',
    ),
  },
)

export const timeouts = group(
  'Time limits. apt gives up after 30 seconds without a byte: keep `connect` and `fields` together below that, or raise `Acquire::http::Timeout` of the clients.',
  {
    connect: setting(duration('100ms', '5m'), '8s')
      .needsRestart()
      .says(
        'Time limit for the name look-up and for the connection to an origin, a parent proxy or the far end of a tunnel.',
      ),
    fields: setting(duration('100ms', '10m'), '15s')
      .needsRestart()
      .says(
        'Time limit for the head of the origin’s response. If nothing else can answer, the client gets 503 after `connect` and `fields` together, and the request goes on for five minutes, so that the next try finds the file. Raise it for an archive that makes its files on demand, together with `Acquire::http::Timeout` of its clients.',
      ),
    content: setting(duration('100ms', '10m'), '25s')
      .needsRestart()
      .says('Time limit for the next byte of the origin’s content.'),
    revalidation: setting(duration('0s', '1m'), '4s').says(
      'Time limit for a client that waits while the origin is asked about a stored file. After that the client gets the stored copy, and the response says so.',
    ),
    tunnel: setting(duration('1s', '1d'), '10m').says(
      'Idle timeout of a tunnel: it is closed when no byte has moved in either direction for so long.',
    ),
    client_head: setting(duration('1s', '10m'), '15s')
      .needsRestart()
      .says('Time limit for a client to send the head of its request.'),
    client_idle: setting(duration('1s', '1h'), '2m')
      .needsRestart()
      .says(
        'Idle timeout of a client connection between requests. apt pauses between update and download: keep it above a minute.',
      ),
    client_stalled: setting(duration('1s', '1h'), '1m')
      .needsRestart()
      .says(
        'Time limit for a client that reads nothing of its response, or less than `limits.minimum_rate`. A client that has read 16 KiB a second or more before may pause for six times as long: programs that limit their rate read some megabytes at once, and then nothing for minutes. The time for which a client waits for this proxy or for an origin does not count.',
      ),
    drain: setting(duration('0s', '1h'), '30s')
      .needsRestart()
      .says(
        'Time limit for running transfers when the daemon stops. Until those under way have ended, it goes on serving new clients as well; in the last 5 seconds of the limit (in the second half of one below 10 s) it takes no new ones.',
      ),
  },
)

export const limits = group('Limits for clients and origins.', {
  head: setting(size('4K', '1M'), '64K')
    .needsRestart()
    .says('Maximum bytes of the head of a request.'),
  connections: setting(integer(1, 1_000_000), 4096)
    .needsRestart()
    .says('Maximum number of client connections at a time. Further ones are closed at once.'),
  per_client: group(
    'Limits for each client: an IPv4 address, or the /64 of an IPv6 address. They do not apply to this machine itself (loopback addresses), or to the machines under `proxy_protocol`, whose clients are counted by their own addresses. Clients behind one address that is not named so, such as those of a NAT or of a reverse proxy, are one client. A reload changes these limits for connections that begin after it.',
    {
      connections: optionalSetting(
        integer(1, 1_000_000),
        'no limit but `limits.connections`',
        'limits:\n  per_client:\n    connections: 32',
      ).says(
        'Maximum number of connections of one client at a time. apt has one for each archive, and one more for each tunnel that it opens. When one more is needed, the oldest idle one is closed, or the request waits up to 5 seconds and is then answered 429, after which apt tries again. As many connections again (16 at least) may wait; further ones are closed at once.',
      ),
      rate: optionalSetting(
        size('4K', '64G'),
        'no limit',
        'limits:\n  per_client:\n    rate: 10M\n    except: [192.0.2.0/28]',
      ).says(
        'Maximum bytes of content that one client gets in a second, on all its connections and tunnels together; a client that was silent gets the bytes of one second at once. Its connections take turns. With a low rate and many connections apt may wait longer than 30 seconds for one of them, and gives up.',
      ),
      except: setting(listOf(network, 'networks'), []).says(
        'Networks whose machines have no such limits.',
      ),
    },
  ),
  minimum_rate: setting(size('0', '16M'), '1K')
    .needsRestart()
    .says(
      'Bytes a second that a client has to read of its response, as an average over `timeouts.client_stalled`. A slower one is cut, because each holds a connection and memory. 0 cuts only those that read nothing. It does not apply in tunnels that are not intercepted.',
    ),
  memory: setting(size('0', '64G'), '64M')
    .needsRestart()
    .says('Memory for small files that are in use.'),
  transfers: setting(size('1M', '64G'), '128M')
    .needsRestart()
    .says(
      'Memory for content on its way between origins, disk and clients. When it is used up, transfers go on in small pieces.',
    ),
  origin_connections: setting(integer(1, 10_000), 16)
    .needsRestart()
    .says(
      'Maximum number of connections to one origin at a time, and as many again for requests that are passed through.',
    ),
})

export const https = group(
  'HTTPS through the proxy, that is CONNECT. A tunnel is carried through unread; or it is intercepted, so that its requests are read and cached, with certificates of a CA that clients trust; or it is refused. The closest pattern in the three lists below decides. For hosts in none of them `https.intercept` decides, except that hosts under `passthrough_domains` are tunnelled. Files asked for as `http://HTTPS///host/path` are cached in each case.',
  {
    prevent: setting(boolean, false).says('Whether all CONNECT requests are refused with 403.'),
    intercept: setting(boolean, false).says(
      'Whether tunnels are intercepted, so that their requests are cached. Clients have to trust the CA: `/_cachesvc/cachesvc.crt` is its certificate, and the setup page says how to install it. The certificate of the origin is always verified.',
      'Requests inside an intercepted tunnel have to name the host of the tunnel. The policy applies to them as to all requests.',
    ),
    intercept_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
      'Hosts whose tunnels are intercepted even when `https.intercept` is false.',
    ),
    tunnel_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
      'Hosts whose tunnels are never intercepted, such as those that ask for client certificates.',
    ),
    refuse_domains: setting(
      listOf(hostPattern, 'host patterns'),
      [],
      'https:\n  intercept: true\n  tunnel_domains: [esm.example.com]\n  refuse_domains: [.example.net]',
    ).says('Hosts to which CONNECT is refused with 403.'),
    cert: setting(orNothing(absolutePath), '')
      .needsRestart()
      .says(
        'PEM file with the certificate of the CA, root or intermediate, and the certificates between it and its root, in any order. Without it the service makes a CA when it first starts and keeps it in `authority.pem` in the cache directory. If there are `domains`, this CA is limited to them, to `private_domains`, to `https.intercept_domains` and to the names of the proxy.',
        'With a certificate that is not a CA, is not valid now, or does not belong to the key, the service does not start and exits with 78. It warns from 30 days before the certificate ends.',
      ),
    key: setting(orNothing(absolutePath), '')
      .needsRestart()
      .says(
        'PEM file with the private key of the CA: RSA, or EC on P-256, P-384 or P-521; in PKCS#8, PKCS#1 or SEC 1 form, encrypted or not. Without it the key is in the file of `https.cert`.',
      ),
    password: setting(secretText, '').needsRestart().says('Password of an encrypted private key.'),
    certificate_domain: setting(orNothing(hostName), '').says(
      'Name of this proxy in certificates: the certificate of the TLS listener is for this name, and all certificates name it as the host of the CA certificate and the revocation list.',
    ),
    aia_address: setting(orNothing(httpUrl), '').says(
      'URL of the CA certificate, written into all certificates. Empty: made from `https.certificate_domain` if that is set, else left out.',
    ),
    enable_crl: setting(boolean, false)
      .needsRestart()
      .says(
        'Whether a certificate revocation list is made each day and served at `/_cachesvc/revocation.crl`. With `https.certificate_domain` its address is written into all certificates. The list is empty, because certificates are valid for one day only.',
      ),
    origin_ca: setting(listOf(absolutePath, 'paths'), []).says(
      'PEM files with certificates of CAs that are trusted for origins, in addition to those of Node.js and of the system: `/etc/ssl/certs/ca-certificates.crt` on Debian, or the file that the environment variable `SSL_CERT_FILE` names, and that of `NODE_EXTRA_CA_CERTS`. The files of the system are read at the start and at each reload.',
    ),
    remember_distrust: setting(duration('0s', '7d'), '1h').says(
      'Time for which a client’s tunnels to a host are not intercepted after the client has rejected the certificate for that host. The client then works, without caching. 0 intercepts each time.',
    ),
  },
)
