/**
 * Examples that show whether the proxy works, and how to trust its certificate. Pure.
 */
import { aptFile, type Chapter, example, type Setting } from './example.ts'

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
        '200 says yes; with 403 the machine is in no network under `clients`. The address without a path always answers 406.',
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
      text: `cachesvc explain http://${archives[0]}/debian/dists/stable/InRelease`,
      notes: ['The page Explain says the same, in a browser and on any machine.'],
    }),
  ]
}
