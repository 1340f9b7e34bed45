/**
 * Examples for a machine that has apt: a fixed proxy, one that is asked for first, sources that need no proxy setting, and
 * ways to see that it works. Pure.
 */
import type { Chapter, Example, Setting } from './example.ts'

export function clientChapters(setting: Setting): readonly Chapter[] {
  return [
    {
      id: 'client',
      title: 'One machine',
      examples: [aptConf(setting), oneCommand(setting), detectScript(setting), detectConf()],
    },
    {
      id: 'sources',
      title: 'In the list of sources',
      examples: [httpsSource(setting), prefixSource(setting)],
    },
  ]
}

/** The one line that is enough. */
export function proxyLine({ here }: Pick<Setting, 'here'>): string {
  return `Acquire::http::Proxy "${here.url}";`
}

function aptConf(setting: Setting): Example {
  const fallBack =
    'apt uses this proxy for https sources too, because https settings fall back to those of http.'
  const meaning = {
    tunnel: `${fallBack} They are carried through with CONNECT, unread and not cached. The second line keeps them away from the proxy: leave it out if these machines have no other way to the network.`,
    intercept: `${fallBack} They are then read and cached, so the machine must trust the certificate of this service. The second line keeps them away from the proxy: leave it out once it does.`,
    disabled: `${fallBack} This service refuses them: the second line lets apt fetch them directly.`,
  } as const
  return {
    id: 'apt-conf',
    title: 'apt.conf',
    intro: 'A machine that always has this network.',
    place: '/etc/apt/apt.conf.d/30cachesvc',
    grammar: 'apt',
    text: `${proxyLine(setting)}\nAcquire::https::Proxy "DIRECT";`,
    notes: [meaning[setting.httpsMode]],
  }
}

function oneCommand(setting: Setting): Example {
  return {
    id: 'one-command',
    title: 'The same as one command',
    intro: 'For a terminal.',
    place: 'Shell',
    grammar: 'shell',
    text: `sudo tee /etc/apt/apt.conf.d/30cachesvc <<'END'
${aptConf(setting).text}
END`,
    notes: [],
  }
}

/** Needs what every Debian has: sh, timeout (coreutils) and perl-base. */
function detectScript({ here }: Setting): Example {
  return {
    id: 'detect',
    title: 'With a way out: the detection script',
    intro:
      'For laptops, images and build machines: apt asks this script, which tries the proxy for at most one second and otherwise says DIRECT.',
    place: '/usr/local/bin/apt-proxy-detect',
    grammar: 'shell',
    text: `#!/bin/sh
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
fi`,
    notes: ['Make it executable: sudo chmod 755 /usr/local/bin/apt-proxy-detect'],
  }
}

function detectConf(): Example {
  return {
    id: 'detect-conf',
    title: 'apt.conf for the detection script',
    intro: 'Instead of a fixed proxy; the two do not go together.',
    place: '/etc/apt/apt.conf.d/30cachesvc',
    grammar: 'apt',
    text: `Acquire::http::Proxy-Auto-Detect "/usr/local/bin/apt-proxy-detect";`,
    notes: [
      'Detection is a matter of each scheme: https sources are not concerned and go directly.',
    ],
  }
}

function httpsSource({ archives }: Setting): Example {
  return {
    id: 'https-source',
    title: 'Caching an https archive without a certificate',
    intro:
      'With the proxy set, write HTTPS/// in place of the scheme: apt speaks http to this service, which fetches over https and caches.',
    place: '/etc/apt/sources.list.d/example.list',
    grammar: 'sources',
    text: `deb http://HTTPS///${archives[0]}/debian stable main`,
    notes: ['apt checks the signatures of the archive as ever.'],
  }
}

function prefixSource({ here, archives }: Setting): Example {
  return {
    id: 'prefix',
    title: 'Without any proxy setting',
    intro:
      'The address of this service in front of the archive’s, for what cannot be told of a proxy.',
    place: '/etc/apt/sources.list.d/example.list',
    grammar: 'sources',
    text: `deb ${here.url}/${archives[0]}/debian stable main\n# and an archive reached over https:\ndeb ${here.url}/HTTPS///${archives[0]}/debian stable main`,
    notes: [],
  }
}
