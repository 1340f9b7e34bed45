/**
 * Examples for machines that build machines: continuous integration, containers, images, installers. Pure.
 */
import { proxyLine } from './client.ts'
import type { Chapter, Example, Setting } from './example.ts'

export function automationChapters(setting: Setting): readonly Chapter[] {
  return [
    {
      id: 'ci',
      title: 'Continuous integration',
      examples: [gitlab(setting), github(setting)],
    },
    {
      id: 'containers',
      title: 'Containers',
      examples: [buildArgument(setting), dockerfile(setting)],
    },
    {
      id: 'images',
      title: 'Images and installers',
      examples: [cloudInit(setting), debootstrap(setting), mmdebstrap(setting), preseed(setting)],
    },
  ]
}

function gitlab(setting: Setting): Example {
  return {
    id: 'gitlab',
    title: 'GitLab CI',
    intro: 'For jobs that run as root in a Debian or Ubuntu image.',
    place: '.gitlab-ci.yml',
    grammar: 'yaml',
    text: `default:
  before_script:
    - |
      echo '${proxyLine(setting)}' > /etc/apt/apt.conf.d/30cachesvc
      apt-get update`,
    notes: [
      'A before_script of a job replaces the default one: repeat the line there, or put it into a template both use.',
    ],
  }
}

function github(setting: Setting): Example {
  return {
    id: 'github',
    title: 'GitHub Actions',
    intro: 'For self-hosted runners that reach this network.',
    place: '.github/workflows/build.yml',
    grammar: 'yaml',
    text: `name: build
on: push
jobs:
  build:
    runs-on: self-hosted
    steps:
      - name: Fetch packages through the cache
        run: |
          echo '${proxyLine(setting)}' | sudo tee /etc/apt/apt.conf.d/30cachesvc
          sudo apt-get update`,
    notes: [],
  }
}

function buildArgument({ here }: Setting): Example {
  return {
    id: 'docker-build',
    title: 'docker build, any Dockerfile',
    intro:
      'http_proxy is known to every build: the Dockerfile stays as it is, and neither the image nor its history keeps the address.',
    place: 'Shell',
    grammar: 'shell',
    text: `docker build --build-arg http_proxy=${here.url} .`,
    notes: [
      'Other programs of the build obey it too and may ask for hosts this service does not allow. The next form concerns apt alone.',
    ],
  }
}

function dockerfile({ here }: Setting): Example {
  return {
    id: 'dockerfile',
    title: 'Dockerfile, apt alone, nothing baked in',
    intro:
      'The proxy holds for these commands only; no file with its address enters the image, which therefore works anywhere.',
    place: 'Dockerfile',
    grammar: 'dockerfile',
    text: `# docker build --build-arg APT_PROXY=${here.url} .
FROM debian:stable-slim
ARG APT_PROXY=DIRECT
RUN apt-get -o Acquire::http::Proxy="$APT_PROXY" update \\
 && apt-get -o Acquire::http::Proxy="$APT_PROXY" install -y --no-install-recommends ca-certificates \\
 && rm -rf /var/lib/apt/lists/*`,
    notes: ['Without the argument the build goes directly to the archives.'],
  }
}

function cloudInit({ here }: Setting): Example {
  return {
    id: 'cloud-init',
    title: 'cloud-init',
    intro: 'For virtual machines, from their first boot on.',
    place: 'User data',
    grammar: 'yaml',
    text: `#cloud-config
apt:
  http_proxy: ${here.url}
  https_proxy: DIRECT`,
    notes: [],
  }
}

function debootstrap({ here }: Setting): Example {
  return {
    id: 'debootstrap',
    title: 'debootstrap',
    intro: 'A minimal system in a directory.',
    place: 'Shell',
    grammar: 'shell',
    text: `sudo env http_proxy=${here.url} debootstrap stable ./stable`,
    notes: [],
  }
}

function mmdebstrap(setting: Setting): Example {
  return {
    id: 'mmdebstrap',
    title: 'mmdebstrap',
    intro: 'The same, faster, and without root where user namespaces are allowed.',
    place: 'Shell',
    grammar: 'shell',
    text: `mmdebstrap --aptopt='${proxyLine(setting).replace(/;$/, '')}' \\
  --customize-hook='rm "$1/etc/apt/apt.conf.d/99mmdebstrap"' \\
  stable ./stable.tar`,
    notes: ['The hook takes the setting out of the new system again: leave it out to keep it.'],
  }
}

function preseed({ here }: Setting): Example {
  return {
    id: 'preseed',
    title: 'Debian installer',
    intro: 'One line in the preseed file, or the answer to the question about an HTTP proxy.',
    place: 'preseed.cfg',
    grammar: 'preseed',
    text: `d-i mirror/http/proxy string ${here.url}/`,
    notes: ['The installed system keeps the setting in /etc/apt/apt.conf.'],
  }
}
