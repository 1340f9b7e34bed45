/**
 * The texts around the settings in cachesvc.yaml(5) and docs/configuration.md. `npm run manual` makes these and the JSON Schema from
 * the settings, and a test fails while they are out of date.
 */
import { code, entry, heading, type SettingFile } from '../../config/manual.ts'
import { settings } from './settings.ts'

/** The manual of cachesvc.yaml. */
export const cachesvcManual: SettingFile = {
  name: 'cachesvc.yaml',
  settings,
  source: 'lib/cache/config/settings.ts',
  document: { path: 'docs/configuration.md', title: 'Configuration of cachesvc' },
  summary: 'configuration of the caching proxy cachesvc',
  introduction: [
    heading('Description'),
    'cachesvc reads its configuration from the file named by `--config`, else by `CACHESVC_CONFIG`, else from `/etc/cachesvc/cachesvc.yaml` if that exists. Without a file the defaults below apply.',
    'The file is YAML 1.2 in UTF-8. Unknown settings are errors. `cachesvc --check-config` prints all problems of a file, each with its line, and exits with 78 if there are any. On SIGHUP the service reads the file again. If the file has problems, the running configuration stays in force. Each setting says whether a change needs a reload or a restart; until the restart `cachesvc status` names the settings that wait.',
    'Files written for GoAPTCacher are understood, with differences: hosts match whole names, the default port is 3142, files without a request for three months are removed.',
    heading('Values'),
    entry(
      'duration',
      'A number and a unit, or several of them: `500ms`, `30s`, `5m`, `1h30m`, `7d`, `2w`. A number alone is seconds.',
    ),
    entry('size', 'A number and a binary unit: `64K`, `10M`, `2G`, `1T`. A number alone is bytes.'),
    entry(
      'host pattern',
      '`archive.example.org` is that host, `.example.org` that host and all below it, `host:port` that port only. Write an IPv6 address with a port in brackets: `[2001:db8::1]:8080`. Upper and lower case are equal.',
    ),
    entry(
      'network',
      'An address and a prefix length, `192.168.0.0/16` or `fd00::/8`, or a single address. `0.0.0.0/0` and `::/0` together mean all clients.',
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
    entry('/var/cache/cachesvc', 'Stored files and statistics of the system’s service.'),
    heading('See also'),
    '`cachesvc`(8)',
  ],
}
