/**
 * Examples for a machine that has apt: a proxy, fixed or detected, sources that need no proxy setting, how to trust the certificate,
 * and whether it works. Pure.
 */
import { aptFile, type Chapter, example, proxyLine, type Setting } from './example.ts'
import { detectionScript, scriptFile } from './setup-script.ts'

export function clientChapters(setting: Setting): readonly Chapter[] {
  return [
    { id: 'client', title: 'One machine', examples: proxies(setting) },
    { id: 'sources', title: 'In the list of sources', examples: sources(setting) },
  ]
}

function proxies(setting: Setting): Chapter['examples'] {
  const lines = `${proxyLine(setting)}\nAcquire::https::Proxy "DIRECT";`
  const { url } = setting.here
  return [
    example('Shell', {
      id: 'setup-script',
      title: 'A script that sets it up',
      intro:
        'apt uses this service whenever it answers within a second, and the archives directly otherwise. Read the script before you run it.',
      text: `/usr/lib/apt/apt-helper download-file \\
  ${url}/_cachesvc/setup.sh setup.sh
less setup.sh
sudo sh setup.sh`,
      notes: [
        'It writes the two files below and can be run again. sudo sh setup.sh --undo removes them.',
        'For a system in a directory, such as an image: sh setup.sh --root DIRECTORY.',
      ],
    }),
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
    example('/etc/apt/sources.list.d/example.sources', {
      id: 'deb822',
      title: 'The same as a deb822 file',
      intro: 'The form of newer releases, with the key that signs the archive.',
      text: `Types: deb
URIs: http://HTTPS///${archive}/debian
Suites: stable
Components: main
Signed-By: /etc/apt/keyrings/example.gpg`,
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

export function checkChapter(setting: Setting): Chapter {
  return { id: 'check', title: 'Does it work?', examples: checks(setting) }
}

/** How to trust the certificate, when there is one. */
export function certificateChapters(setting: Setting): readonly Chapter[] {
  const certified = setting.httpsMode === 'intercept' || setting.fingerprint !== undefined
  if (!certified) return []
  return [{ id: 'certificate', title: 'The certificate', examples: trust(setting) }]
}

function trust({ here, fingerprint, httpsMode, secureUrl }: Setting): Chapter['examples'] {
  const use =
    httpsMode === 'intercept'
      ? 'HTTPS is read and cached here.'
      : 'The listener for TLS has a certificate of this service.'
  const certificate = example('Shell', {
    id: 'trust',
    title: 'Trusting this service',
    intro: `${use} Before the last command, compare the fingerprint with the one your administrator tells you.`,
    text: `curl --fail --silent --show-error --output cachesvc.crt ${here.url}/_cachesvc/cachesvc.crt
openssl x509 -in cachesvc.crt -noout -subject -fingerprint -sha256
sudo install -m 644 cachesvc.crt /usr/local/share/ca-certificates/cachesvc.crt
sudo update-ca-certificates`,
    notes: [
      ...(fingerprint === undefined ? [] : [`It has to be: ${fingerprint}`]),
      'This page came over the same connection as the certificate. Let an administrator confirm the fingerprint, which is in the log of the service.',
    ],
  })
  if (secureUrl === undefined) return [certificate]
  const proxy = example(aptFile, {
    id: 'secure-proxy',
    title: 'Speaking TLS to this service',
    intro:
      'For networks where others can read the traffic. First make the machine trust the certificate.',
    text: `Acquire::http::Proxy "${secureUrl}";`,
  })
  return [certificate, proxy]
}

function checks({ here, archives }: Setting): Chapter['examples'] {
  return [
    example('Shell', {
      id: 'reach',
      title: 'Is it there, and for this machine?',
      intro:
        '200 says yes; with 403 the machine is in no network of the setting clients. The address without a path always answers 406.',
      text: `curl --fail ${here.url}/_cachesvc/allowed`,
    }),
    example('Shell', {
      id: 'look',
      title: 'Is it used, and what came from the cache?',
      intro: 'Each response says whether it was a hit, and why.',
      text: `apt-config dump | grep -i '::proxy'
sudo apt-get -o Debug::Acquire::http=true update 2>&1 |
  grep -Ei '^(answer for|x-cache|cache-status)'`,
    }),
    example('Shell', {
      id: 'explain',
      title: 'Why was it not cached?',
      intro:
        'On the machine of this service: which rule decides about a URL, and what is stored of it.',
      text: `sudo cachesvc explain http://${archives[0]}/debian/dists/stable/InRelease`,
      notes: ['The page Explain says the same, in a browser and on any machine.'],
    }),
  ]
}
