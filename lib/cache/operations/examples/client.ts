/**
 * Examples for a machine that has apt: a fixed proxy, a detected one, and sources that need no proxy setting. Pure.
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
