/**
 * Examples that show whether it works, and what to do about the certificate where HTTPS is intercepted. Pure.
 */
import type { Chapter, Example, Setting } from './example.ts'

export function checkChapters(setting: Setting): readonly Chapter[] {
  const trust: Chapter = {
    id: 'certificate',
    title: 'The certificate',
    examples: [certificate(setting), ...secureProxy(setting)],
  }
  const check: Chapter = {
    id: 'check',
    title: 'Does it work?',
    examples: [reach(setting), look(), explain(setting)],
  }
  const certified = setting.httpsMode === 'intercept' || setting.fingerprint !== undefined
  return certified ? [trust, check] : [check]
}

function certificate({ here, fingerprint, httpsMode }: Setting): Example {
  const use =
    httpsMode === 'intercept'
      ? 'HTTPS is read and cached here.'
      : 'The listener for TLS has a certificate of this service.'
  const known = fingerprint === undefined ? [] : [`It has to be: ${fingerprint}`]
  return {
    id: 'trust',
    title: 'Trusting this service',
    intro: `${use} Compare the fingerprint with what your administrator tells you before the last command.`,
    place: 'Shell',
    grammar: 'shell',
    text: `curl --fail --silent --show-error --output cachesvc.crt ${here.url}/_cachesvc/cachesvc.crt
openssl x509 -in cachesvc.crt -noout -subject -fingerprint -sha256
sudo install -m 644 cachesvc.crt /usr/local/share/ca-certificates/cachesvc.crt
sudo update-ca-certificates`,
    notes: [
      ...known,
      'This page came the same way as the certificate: have the fingerprint confirmed by somebody who knows it from the log of the service.',
    ],
  }
}

function secureProxy({ secureUrl }: Setting): readonly Example[] {
  if (secureUrl === undefined) return []
  return [
    {
      id: 'secure-proxy',
      title: 'Speaking TLS to this service',
      intro: 'For networks where others listen. The certificate has to be trusted first.',
      place: '/etc/apt/apt.conf.d/30cachesvc',
      grammar: 'apt',
      text: `Acquire::http::Proxy "${secureUrl}";`,
      notes: [],
    },
  ]
}

function reach({ here }: Setting): Example {
  return {
    id: 'reach',
    title: 'Is it there?',
    intro:
      'Any 2xx answer says yes. The address without a path answers 406 by design and proves nothing.',
    place: 'Shell',
    grammar: 'shell',
    text: `curl --fail ${here.url}/_cachesvc/api/stats`,
    notes: [],
  }
}

function look(): Example {
  return {
    id: 'look',
    title: 'Is it used, and what came from the cache?',
    intro: 'Every answer says whether it was a hit, and why it was not.',
    place: 'Shell',
    grammar: 'shell',
    text: `apt-config dump | grep -i '::proxy'
sudo apt-get -o Debug::Acquire::http=true update 2>&1 |
  grep -Ei '^(answer for|x-cache|cache-status)'`,
    notes: [],
  }
}

function explain({ archives }: Setting): Example {
  return {
    id: 'explain',
    title: 'Why was it not cached?',
    intro:
      'On the machine of this service: which rule decides about a URL, and what is stored of it.',
    place: 'Shell',
    grammar: 'shell',
    text: `cachesvc explain http://${archives[0]}/debian/dists/stable/InRelease`,
    notes: ['The page Explain says the same, in a browser and on any machine.'],
  }
}
