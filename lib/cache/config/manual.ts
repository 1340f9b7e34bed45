/**
 * cachesvc.yaml(5), docs/configuration.md and the JSON Schema, made from the settings. `npm run manual` writes them; a test
 * fails while they are out of date.
 */
import {
  type Block,
  code,
  entry,
  heading,
  manPage,
  markdown,
  paragraph,
} from '../../config/manual.ts'
import { settingBlocks } from '../../config/setting-manual.ts'
import { jsonSchema } from '../../config/settings.ts'
import { settings } from './settings.ts'

/** The files that are made, by their path in the repository. */
export function manualFiles(): ReadonlyMap<string, string> {
  const summary = 'configuration of the caching proxy cachesvc'
  const page = { name: 'cachesvc.yaml', section: 5, title: 'File formats', summary }
  const schema = jsonSchema(settings, 'cachesvc.yaml')
  return new Map([
    ['docs/configuration.md', markdown('Configuration of cachesvc', [written, ...blocks()])],
    ['man/cachesvc.yaml.5', manPage({ ...page, blocks: [...blocks(), ...manPageEnd] })],
    ['packaging/cachesvc.schema.json', `${JSON.stringify(schema, null, 2)}\n`],
  ])
}

const written = paragraph(
  '<!-- Written by `npm run manual` from lib/cache/config/settings.ts: change that, not this file. -->',
)

const introduction: readonly Block[] = [
  heading('Description'),
  paragraph(
    'cachesvc reads its configuration from the file named by `--config`, else by `CACHESVC_CONFIG`, else from `/etc/cachesvc/cachesvc.yaml` if that is there. Without any file the defaults below hold.',
  ),
  paragraph(
    'The file is YAML 1.2 in UTF-8. Unknown settings are errors. `cachesvc --check-config` tells everything that is wrong with a file at once, each problem with its line, and ends with 78 if there is any. On SIGHUP the file is read again; one with problems is not taken, and the running configuration stays.',
  ),
  paragraph(
    'Files written for GoAPTCacher are understood. What differs is said below: hosts match whole names, the default port is 3142, what nobody asked for is removed after three months.',
  ),
  heading('Values'),
  entry(
    'duration',
    paragraph(
      'A number and a unit, or several of them: `500ms`, `30s`, `5m`, `1h30m`, `7d`, `2w`. A number alone is seconds.',
    ),
  ),
  entry(
    'size',
    paragraph('A number and a binary unit: `64K`, `10M`, `2G`, `1T`. A number alone is bytes.'),
  ),
  entry(
    'host pattern',
    paragraph(
      '`archive.example.org` is that host, `.example.org` that host and all below it, `host:port` that port only. An IPv6 address with a port stands in brackets: `[2001:db8::1]:8080`. Case does not count.',
    ),
  ),
  entry(
    'network',
    paragraph(
      'An address and a prefix length, `192.168.0.0/16` or `fd00::/8`, or a single address. `0.0.0.0/0` and `::/0` together are everybody.',
    ),
  ),
]

const manPageEnd: readonly Block[] = [
  heading('Files'),
  entry('/etc/cachesvc/cachesvc.yaml', paragraph('The configuration, if no other file is named.')),
  entry('/var/cache/cachesvc', paragraph('Stored objects and statistics of the system’s service.')),
  heading('See also'),
  paragraph('`cachesvc`(8)'),
]

const example: readonly Block[] = [
  heading('Example'),
  code(`cache_directory: /srv/cachesvc
domains:
  - archive.example.org
  - .packages.example.org
clients: [127.0.0.0/8, 192.0.2.0/24]
index:
  hostnames: [proxy.example.org]
expiration:
  unused_days: 180`),
]

function blocks(): readonly Block[] {
  const described = settingBlocks(settings, {
    leaveOut: page => noEffect === ('group' in page ? page.group : page.setting.manual[0]),
  })
  return [...introduction, heading('Settings'), ...described, ...example]
}

const noEffect = 'No effect.'
