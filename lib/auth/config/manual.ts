/**
 * authproxy.yaml(5), docs/authproxy-configuration.md and the JSON Schema, made from the settings. `npm run manual` writes
 * them; a test fails while they are out of date.
 */
import { code, entry, heading, type SettingFile } from '../../config/manual.ts'
import { tokenVariable, variableOf } from './environment.ts'
import { settings } from './settings.ts'

export const authproxyManual: SettingFile = {
  name: 'authproxy.yaml',
  settings,
  source: 'lib/auth/config/settings.ts',
  document: { path: 'docs/authproxy-configuration.md', title: 'Configuration of authproxy' },
  summary: 'configuration of the authenticating proxy authproxy',
  introduction: [
    heading('Description'),
    'Each instance of authproxy has a configuration of its own: the file `/etc/authproxy/INSTANCE.yaml`, another one named by `--config`, or the environment.',
    'The environment is used alone when it is complete: `AUTHPROXY_DOMAIN`, `AUTHPROXY_PROXY_LISTEN_ADDRESS`, `AUTHPROXY_PROXY_TARGET_URL`, and `AUTHPROXY_IDP_METADATA_URL` or `AUTHPROXY_IDP_METADATA_FILE`. Otherwise the file is used alone; the two are never merged, and the log says at the start which of them is used and what was missing. Each setting names its variable; lists are separated by commas.',
    'The file is YAML 1.2 in UTF-8, indented with spaces. Unknown settings are errors. `sudo -u authproxy authproxy INSTANCE --check-config` lists all problems with their lines, and exits with 78 if there are any. On SIGHUP the file is read again; one with problems is not taken, and the running configuration stays. Each setting says whether a change needs a reload or a restart; a new `proxy.targetURL` waits with a new `domain` or `proxy.listenAddress`.',
    heading('Values'),
    entry(
      'duration',
      'A number and a unit, or several of them: `500ms`, `30s`, `5m`, `1h30m`, `7d`. A number alone is seconds.',
    ),
    entry('size', 'A number and a binary unit: `64K`, `1M`. A number alone is bytes.'),
  ],
  example: [
    heading('Example'),
    code(`domain: app.example.org
idpMetadataURL: https://idp.example.org/metadata
passthroughPaths:
  - /static/
proxy:
  listenAddress: 127.0.0.1:8080
  targetURL: http://127.0.0.1:3000
  trustedProxies: [127.0.0.1]`),
    'At the identity provider: entity ID `https://app.example.org/saml/metadata`, ACS `https://app.example.org/saml/acs`, logout `https://app.example.org/saml/slo`, NameID format transient; or the document at `https://app.example.org/saml/metadata.xml`. It should send `email`, `sAMAccountName` or a NameID that is not empty.',
    'The edge in front has to preserve Host, to overwrite X-Forwarded-Proto with `https`, and to accept fields of the size of `session.cookieSize` and more.',
  ],
  end: [
    heading('Files'),
    entry('/etc/authproxy/INSTANCE.yaml', 'The configuration of an instance.'),
    entry(
      '/var/lib/authproxy/INSTANCE.json',
      'Its dynamic configuration, unless `configPath` names another file.',
    ),
    heading('See also'),
    '`authproxy`(8)',
  ],
  remark: variableText,
}

/**
 * The sentence about the variable of a setting. A variable cannot hold a mapping, a list of groups or a member of one, and it can hold
 * one token only.
 */
function variableText(path: readonly string[]): string | undefined {
  const name = path.join('.')
  if (name.includes('[]') || WITHOUT_VARIABLE.includes(name)) return undefined
  return `Environment: \`${name === 'passthroughTokens' ? tokenVariable : variableOf(path)}\`.`
}

const WITHOUT_VARIABLE = ['identity.attributes', 'identity.tokenClaims', 'access']
