/**
 * Examples for a machine that has apt: a fixed proxy, a detected one, and sources that need no proxy setting. Pure.
 */
import { aptFile, type Chapter, example, proxyLine, type Setting } from './example.ts'

export function clientChapters(setting: Setting): readonly Chapter[] {
  return [
    { id: 'client', title: 'One machine', examples: proxies(setting) },
    { id: 'sources', title: 'In the list of sources', examples: sources(setting) },
  ]
}

const scriptFile = '/usr/local/bin/apt-proxy-detect'

function proxies(setting: Setting): Chapter['examples'] {
  const lines = `${proxyLine(setting)}\nAcquire::https::Proxy "DIRECT";`
  return [
    example(aptFile, {
      id: 'apt-conf',
      title: 'apt.conf',
      intro: 'For a machine that is always in this network.',
      text: lines,
      notes: [
        `apt uses this proxy for https sources too, because https settings fall back to those of http. ${httpsNotes[setting.httpsMode]}`,
      ],
    }),
    example('Shell', {
      id: 'one-command',
      title: 'The same as one command',
      intro: 'For a terminal.',
      text: `sudo tee ${aptFile} <<'END'\n${lines}\nEND`,
    }),
    example(scriptFile, {
      id: 'detect',
      title: 'The detection script',
      intro:
        'For laptops, images and build machines: apt asks this script, which tries the proxy for at most one second and otherwise says DIRECT.',
      text: detectionScript(setting),
      notes: [`Make it executable: sudo chmod 755 ${scriptFile}`],
    }),
    example(aptFile, {
      id: 'detect-conf',
      title: 'apt.conf for the detection script',
      intro: 'Use this instead of a fixed proxy, not together with it.',
      text: `Acquire::http::Proxy-Auto-Detect "${scriptFile}";`,
      notes: [
        'apt detects the proxy for each scheme separately: https sources are still fetched directly.',
      ],
    }),
  ]
}

const httpsNotes = {
  tunnel:
    'They are tunnelled with CONNECT, unread and not cached. With the second line apt fetches them without the proxy: leave it out if these machines have no other way to the network.',
  intercept:
    'They are then read and cached, so the machine must trust the certificate of this service. With the second line apt fetches them without the proxy: leave it out once the machine trusts the certificate.',
  disabled: 'This service refuses them. With the second line apt fetches them without the proxy.',
} as const

/** Needs what every Debian has: sh, timeout (coreutils) and perl-base. */
function detectionScript({ here }: Setting): string {
  return `#!/bin/sh
# Tells apt which proxy to use: the cache if it answers within a second.
# Needs the essential packages only: dash, coreutils, perl-base.
proxy='${here.url}'
host='${here.host}'
port='${here.port}'

if timeout 1 perl -MIO::Socket::IP -e '
  my ($host, $port, $authority) = @ARGV;
  my $cache = IO::Socket::IP->new(PeerHost => $host, PeerPort => $port)
    or exit 1;
  print $cache join("\\r\\n", "GET /_cachesvc/api/stats HTTP/1.1",
    "Host: $authority", "Connection: close", "", "");
  my $status = <$cache> // "";
  exit($status =~ m{^HTTP/1[.][01] 2} ? 0 : 1);
' "$host" "$port" "\${proxy#*//}" 2>/dev/null; then
  echo "$proxy"
else
  echo DIRECT
fi`
}

function sources({ here, archives: [archive] }: Setting): Chapter['examples'] {
  const file = '/etc/apt/sources.list.d/example.list'
  return [
    example(file, {
      id: 'https-source',
      title: 'Caching an https archive without a certificate',
      intro:
        'With the proxy set, write HTTPS/// in place of https://. apt speaks http to this service, which fetches over https and caches.',
      text: `deb http://HTTPS///${archive}/debian stable main`,
      notes: ['apt still checks the signatures of the archive.'],
    }),
    example(file, {
      id: 'prefix',
      title: 'Without any proxy setting',
      intro:
        'For programs that cannot use a proxy: put the address of this service before that of the archive.',
      text: `deb ${here.url}/${archive}/debian stable main\n# and an archive reached over https:\ndeb ${here.url}/HTTPS///${archive}/debian stable main`,
    }),
  ]
}
