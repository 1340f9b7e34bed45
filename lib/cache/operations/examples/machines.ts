/**
 * Examples for networks, and for machines that build machines. Zone files are those of RFC 1035 section 5, SRV records those of RFC
 * 2782. Pure.
 */
import { isIPv4 } from 'node:net'
import { aptFile, type Chapter, example, proxyLine, type Setting } from './example.ts'

/** The port auto-apt-proxy tries on gateways and neighbours. */
const guessedPort = 3142

/** An SRV record for each archive, but no more than so many. */
const mostArchives = 5

export function discoveryChapter(setting: Setting): Chapter {
  const { here, ports, archives } = setting
  const { name, domain, address } = names(setting)
  const record = (service: string) => `${service}. 3600 IN SRV 0 0 ${here.port} ${name}.`
  const examples = [
    example('Shell', {
      id: 'auto-apt-proxy',
      title: 'auto-apt-proxy',
      intro:
        'A package that looks for a proxy each time apt runs, and uses none when it finds none.',
      text: 'sudo apt-get install --yes auto-apt-proxy\nauto-apt-proxy',
      notes: [
        ports.includes(guessedPort)
          ? 'It finds this service on the default gateway and on the machine itself; on other machines it needs the DNS record below.'
          : `It tries port ${guessedPort}, which no listener of this service has, so it needs the DNS record below.`,
        'The second command prints what it found.',
      ],
    }),
    example(`Zone ${domain}`, {
      id: 'srv-proxy',
      title: 'DNS: the proxy of a domain',
      intro: `auto-apt-proxy looks up this record in the domain of its machine, here ${domain}.`,
      text: `${address}${record(`_apt_proxy._tcp.${domain}`)}`,
      notes: [`To check: dig +short SRV _apt_proxy._tcp.${domain}`],
    }),
    example('Your own resolver', {
      id: 'srv-archive',
      title: 'DNS: one archive',
      intro:
        'apt itself looks up this record before it connects to an archive over http: machines without any setting use this service.',
      text: `${address}${archives
        .slice(0, mostArchives)
        .map(archive => record(`_http._tcp.${archive}`))
        .join('\n')}`,
      notes: [
        'The record belongs in a local zone of the resolver your machines use, such as a response policy zone.',
      ],
    }),
  ]
  return { id: 'discovery', title: 'A whole network', examples }
}

/** SRV records point to names: when examples know an address only, a name for it comes first. */
function names({ here }: Setting): {
  readonly name: string
  readonly domain: string
  readonly address: string
} {
  if (!here.numeric) {
    const domain = here.host.split('.').slice(1).join('.')
    return { name: here.host, domain: domain === '' ? 'example.org' : domain, address: '' }
  }
  const name = 'apt-cache.example.org'
  const type = isIPv4(here.host) ? 'A' : 'AAAA'
  return { name, domain: 'example.org', address: `${name}. 3600 IN ${type} ${here.host}\n` }
}

export function automationChapters(setting: Setting): readonly Chapter[] {
  return [
    { id: 'management', title: 'Many machines', examples: hosts(setting) },
    { id: 'ci', title: 'Continuous integration', examples: integration(setting) },
    { id: 'containers', title: 'Containers', examples: containers(setting) },
    { id: 'images', title: 'Images and installers', examples: images(setting) },
  ]
}

function integration(setting: Setting): Chapter['examples'] {
  const line = proxyLine(setting)
  return [
    example('.gitlab-ci.yml', {
      id: 'gitlab',
      title: 'GitLab CI',
      intro: 'For jobs that run as root in a Debian or Ubuntu image.',
      text: `default:
  before_script:
    - |
      echo '${line}' > ${aptFile}
      apt-get update`,
      notes: [
        'A before_script of a job replaces the default one: repeat the line there, or put it into a template both use.',
      ],
    }),
    example('.github/workflows/build.yml', {
      id: 'github',
      title: 'GitHub Actions',
      intro: 'For self-hosted runners that reach this network.',
      text: `name: build
on: push
jobs:
  build:
    runs-on: self-hosted
    steps:
      - name: Fetch packages through the cache
        run: |
          echo '${line}' | sudo tee ${aptFile}
          sudo apt-get update`,
    }),
  ]
}

function hosts(setting: Setting): Chapter['examples'] {
  return [
    example('playbook.yml', {
      id: 'ansible',
      title: 'Ansible',
      intro: 'For every host of an inventory.',
      text: `- hosts: all
  become: true
  tasks:
    - name: apt uses the cache
      ansible.builtin.copy:
        dest: ${aptFile}
        mode: "0644"
        content: |
          ${proxyLine(setting)}`,
    }),
  ]
}

function containers({ here }: Setting): Chapter['examples'] {
  return [
    example('Shell', {
      id: 'docker-build',
      title: 'docker build, any Dockerfile',
      intro:
        'Each build knows http_proxy. The Dockerfile needs no change, and neither the image nor its history keeps the address.',
      text: `docker build --build-arg http_proxy=${here.url} .`,
      notes: [
        'Other programs of the build use it too and may ask for hosts that this service does not allow. The next form is for apt only.',
      ],
    }),
    example('Dockerfile', {
      id: 'dockerfile',
      title: 'Dockerfile, apt alone',
      intro:
        'The proxy is used by these commands only. The image contains no file with its address, so it works in other networks too.',
      text: `# docker build --build-arg APT_PROXY=${here.url} .
FROM debian:stable-slim
ARG APT_PROXY=DIRECT
RUN apt-get -o Acquire::http::Proxy="$APT_PROXY" update \\
 && apt-get -o Acquire::http::Proxy="$APT_PROXY" install -y --no-install-recommends ca-certificates \\
 && rm -rf /var/lib/apt/lists/*`,
      notes: ['Without the argument the build goes directly to the archives.'],
    }),
    example('Shell', {
      id: 'buildkit',
      title: 'BuildKit in a cluster',
      intro: 'The same argument for buildctl, which talks to a BuildKit daemon.',
      text: `buildctl build --frontend dockerfile.v0 \\
  --local context=. --local dockerfile=. \\
  --opt build-arg:http_proxy=${here.url}`,
    }),
    example('Manifest', {
      id: 'kubernetes',
      title: 'Kubernetes',
      intro: 'For pods that install packages when they start: the setting as a file of theirs.',
      text: `apiVersion: v1
kind: ConfigMap
metadata:
  name: apt-proxy
data:
  30cachesvc: |
    ${proxyLine({ here })}
---
apiVersion: v1
kind: Pod
metadata:
  name: example
spec:
  containers:
    - name: example
      image: debian:stable-slim
      command: [sh, -c, apt-get update]
      volumeMounts:
        - name: apt-proxy
          mountPath: ${aptFile}
          subPath: 30cachesvc
  volumes:
    - name: apt-proxy
      configMap:
        name: apt-proxy`,
    }),
  ]
}

function images(setting: Setting): Chapter['examples'] {
  const { url } = setting.here
  return [
    example('User data', {
      id: 'cloud-init',
      title: 'cloud-init',
      intro: 'For virtual machines, from their first boot on.',
      text: `#cloud-config
apt:
  http_proxy: ${url}
  https_proxy: DIRECT`,
    }),
    example('Shell', {
      id: 'debootstrap',
      title: 'debootstrap',
      intro: 'A minimal system in a directory.',
      text: `sudo env http_proxy=${url} debootstrap stable ./stable`,
    }),
    example('Shell', {
      id: 'mmdebstrap',
      title: 'mmdebstrap',
      intro: 'Faster than debootstrap, and without root where user namespaces are allowed.',
      text: `mmdebstrap --aptopt='${proxyLine(setting).replace(/;$/, '')}' \\
  --customize-hook='rm "$1/etc/apt/apt.conf.d/99mmdebstrap"' \\
  stable ./stable.tar`,
      notes: [
        'The hook removes the setting from the new system. Leave the hook out to keep the setting.',
      ],
    }),
    example('preseed.cfg', {
      id: 'preseed',
      title: 'Debian installer',
      intro: 'One line in the preseed file, or the answer to the question about an HTTP proxy.',
      text: `d-i mirror/http/proxy string ${url}/`,
      notes: ['The installed system keeps the setting in /etc/apt/apt.conf.'],
    }),
  ]
}
