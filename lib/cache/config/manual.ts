/**
 * cachesvc.yaml(5), docs/configuration.md and the JSON Schema, made from the settings. `npm run manual` writes them; a test
 * fails while they are out of date.
 */
import { code, entry, heading } from '../../config/manual.ts'
import type { SettingFile } from '../../config/setting-manual.ts'
import { settings } from './settings.ts'

const noEffect = 'No effect.'

/** What authors of cachesvc.yaml read. */
export const cachesvcManual: SettingFile = {
  name: 'cachesvc.yaml',
  settings,
  source: 'lib/cache/config/settings.ts',
  document: { path: 'docs/configuration.md', title: 'Configuration of cachesvc' },
  summary: 'configuration of the caching proxy cachesvc',
  introduction: [
    heading('Description'),
    'cachesvc reads its configuration from the file named by `--config`, else by `CACHESVC_CONFIG`, else from `/etc/cachesvc/cachesvc.yaml` if that is there. Without any file the defaults below hold.',
    'The file is YAML 1.2 in UTF-8. Unknown settings are errors. `cachesvc --check-config` tells everything that is wrong with a file at once, each problem with its line, and ends with 78 if there is any. On SIGHUP the file is read again; one with problems is not taken, and the running configuration stays.',
    'Files written for GoAPTCacher are understood. What differs is said below: hosts match whole names, the default port is 3142, what was not asked for is removed after three months.',
    heading('Values'),
    entry(
      'duration',
      'A number and a unit, or several of them: `500ms`, `30s`, `5m`, `1h30m`, `7d`, `2w`. A number alone is seconds.',
    ),
    entry('size', 'A number and a binary unit: `64K`, `10M`, `2G`, `1T`. A number alone is bytes.'),
    entry(
      'host pattern',
      '`archive.example.org` is that host, `.example.org` that host and all below it, `host:port` that port only. An IPv6 address with a port stands in brackets: `[2001:db8::1]:8080`. Case does not count.',
    ),
    entry(
      'network',
      'An address and a prefix length, `192.168.0.0/16` or `fd00::/8`, or a single address. `0.0.0.0/0` and `::/0` together are all clients.',
    ),
  ],
  example: [
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
  ],
  end: [
    heading('Files'),
    entry('/etc/cachesvc/cachesvc.yaml', 'The configuration, if no other file is named.'),
    entry('/var/cache/cachesvc', 'Stored objects and statistics of the system’s service.'),
    heading('See also'),
    '`cachesvc`(8)',
  ],
  leaveOut: page => noEffect === ('group' in page ? page.group : page.setting.manual[0]),
}
