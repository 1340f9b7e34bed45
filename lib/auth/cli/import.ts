/**
 * The command `authproxy import` writes a configuration out of the environment variables of saml-auth-proxy, and names those that it
 * cannot translate, with what to do. It prints no value of these.
 *
 * # Facts
 * - saml-auth-proxy has the address of the ACS and the entity ID that authproxy has, so the identity provider keeps both.
 * - It knows an attribute by its FriendlyName, else by its Name. Claims are compared with both (config/claims.ts).
 */
import { type CommandLine, obey, type Program, WrongUsage } from '../../command-line.ts'
import { unreadableReason } from '../../errors.ts'
import { readBounded } from '../../files/bounded-file.ts'
import { isRecord, parsedJson } from '../../json.ts'
import { printable } from '../../log/redact.ts'
import { type ExitCode, exitCodes, print } from '../../program.ts'
import { claims } from '../config/claims.ts'
import { configCheck } from '../config/loading/load-config.ts'

export const importing = {
  name: 'authproxy import',
  usage: ['FILE'],
  about:
    'Writes the configuration of an instance for the SAML_PROXY_ variables of saml-auth-proxy in a file: an env file, lines of a shell, or what docker compose and Kubernetes have.',
  commands: { import: { operands: '[FILE]', summary: '' } },
  options: {},
  notes: `Exit status: 0 the configuration is complete, 1 something is missing, as its
comments say, 2 wrong usage.
`,
} as const satisfies Program

const LARGEST = 1024 * 1024

/** Runs the command with the arguments behind its name. */
export function importCommand(argv: readonly string[]): Promise<ExitCode> {
  return obey(importing, ['import', ...argv], runImport)
}

async function runImport({ operands }: CommandLine<typeof importing>): Promise<ExitCode> {
  const [file] = operands
  if (file === undefined) throw new WrongUsage('name the file with the variables')
  const { bytes } = await readBounded(file, LARGEST).catch((error: unknown) => {
    throw new WrongUsage(`${file}: ${unreadableReason(error)}`)
  })
  const { lines, isComplete } = importedConfig(variablesIn(bytes.toString('utf8')))
  await print(`${lines.map(printable).join('\n')}\n`)
  return isComplete ? exitCodes.success : exitCodes.failure
}

/**
 * The variables in lines such as `NAME=VALUE`, `export NAME="VALUE"`, `- NAME=VALUE`, `NAME: VALUE`, or `name: NAME` before `value: VALUE`;
 * undefined for one that stands there in another way.
 */
export function variablesIn(text: string): ReadonlyMap<string, string | undefined> {
  const lines = text.split('\n').map(line => line.trim())
  const plain = lines
    .filter(line => line !== '' && !line.startsWith('#'))
    .join('\n')
    .replace(/name: *["']?(SAML_PROXY_\w+)["']?\nvalue: *(?=\S)/g, '$1=')
  const all = [...plain.matchAll(/SAML_PROXY_([A-Z\d_]+)/g)].map(([, name = '']) => name)
  const line =
    /^[\t "'-]*(?:export +)?SAML_PROXY_([A-Z\d_]+) *(?:=|:(?= *\S))[\t ]*(["']?)(.*?)\2["']?$/gm
  const read = [...plain.matchAll(line)].map(([, name = '', , value = '']) => {
    return [name, NOT_PLAIN.test(value) ? undefined : value] as const
  })
  return new Map([...all.map(name => [name, undefined] as const), ...read])
}

/** What a shell, docker compose or YAML would read in another way: variables, comments, quotes, and the begin of a block, list or alias. */
const NOT_PLAIN = /^[>|&*![{]|[$"'`\\]| #/

/** The lines of a configuration file, and whether it can be used as it is. */
export function importedConfig(variables: ReadonlyMap<string, string | undefined>): {
  readonly lines: readonly string[]
  readonly isComplete: boolean
} {
  const used = new Set<string>()
  const of = (name: string) => {
    used.add(name)
    return variables.get(name) || undefined
  }
  const isOn = (name: string) => /^(?:1|t|true)$/i.test(of(name) ?? '') || undefined
  const sent = new Map<string, string>()
  const attributeOf = (name: string): string => {
    const known = claims.find(({ aliases }) => aliases.includes(name))?.name ?? sent.get(name)
    const isPlain = /^(?!users$)[a-z][a-z\d-]{0,63}$/i.test(name)
    const attribute = known ?? (isPlain ? name : `attribute${sent.size + 1}`)
    if (known === undefined) sent.set(name, attribute)
    return attribute
  }
  const names = membersOf(of('ATTRIBUTE_HEADER_MAPPINGS')).map(pair => {
    const [, name = '', field = ''] = /^(.*)=(.*)$/.exec(pair) ?? []
    return { field, from: [attributeOf(name)] }
  })
  const subject = of('NAME_ID_MAPPING')
  if (subject !== undefined) names.push({ field: subject, from: ['user'] })
  const listed = membersOf(of('AUTHORIZE_VALUES'))
  // In a rule it stands for any text.
  const values = listed.filter(value => !value.includes('*'))
  const asked = of('AUTHORIZE_ATTRIBUTE')
  const isRestricted = variables.get('AUTHORIZE_ATTRIBUTE') ?? variables.has('AUTHORIZE_ATTRIBUTE')
  // Without values saml-auth-proxy lets no person in, and what is not read must not open anything.
  const isUsable = asked !== undefined && values.length > 0
  const allow = isUsable ? [{ [attributeOf(asked)]: values }] : 'nobody'
  const metadata = of('IDP_METADATA_URL')
  const [, file = of('IDP_METADATA_PATH')] = /^file:\/\/(.*)/.exec(metadata ?? '') ?? []
  const format = of('NAME_ID_FORMAT')
  const lifetime = of('COOKIE_MAX_AGE')
  const found = {
    domain: of('BASE_URL')?.replace(/^https?:\/\/|\/$/g, ''),
    ...(file === undefined ? { idpMetadataURL: metadata } : { idpMetadataFile: file }),
    samlRequestSigning: isOn('SIGN_REQUESTS') && 'always',
    access: isRestricted ? [{ path: '/', allow }] : undefined,
    proxy: {
      listenAddress: (of('BIND') ?? ':8080').replace(/^:/, ''),
      targetURL: of('BACKEND_URL')?.replace(/\/$/, ''),
    },
    saml: {
      nameIDFormat: FORMATS.get(format ?? '') ?? format,
      idpInitiated: isOn('ALLOW_IDP_INITIATED'),
    },
    session: { lifetime: lifetime && secondsIn(lifetime) },
    identity: {
      names: names.length === 0 ? undefined : ['authproxy', ...names],
      attributes:
        sent.size === 0 ? undefined : [...sent].map(([from, name]) => ({ name, from: [from] })),
    },
    log: { level: isOn('DEBUG') && 'debug' },
  }
  // A way through JSON leaves out what is undefined.
  const settings = parsedJson(JSON.stringify(found))
  const checked = configCheck('imported')(settings)
  const problems = checked.ok ? [] : checked.problems
  const isWhole = values.length === listed.length && ![...variables.values()].includes(undefined)
  const isComplete = checked.ok && isWhole
  const notes = [
    ...[...variables].flatMap(([name, value]) => {
      const known = ADVICE[name] ?? (used.has(name) ? '' : 'is not known here')
      const advice = value === undefined ? UNREAD : known
      return advice === '' ? [] : [`SAML_PROXY_${name}: ${advice}`]
    }),
    ...problems.map(
      ({ path, text }) =>
        `to fix: ${[path.join('.'), text].filter(part => part !== '').join(': ')}`,
    ),
  ]
  const lines = Object.entries(isRecord(settings) ? settings : {}).flatMap(([name, value]) => {
    if (!isRecord(value)) return [`${name}: ${JSON.stringify(value)}`]
    const members = Object.entries(value).map(([key, one]) => `  ${key}: ${JSON.stringify(one)}`)
    return members.length === 0 ? [] : [`${name}:`, ...members]
  })
  return { lines: [...notes.map(note => `# ${note}`), ...lines], isComplete }
}

const UNREAD = 'to fix: write it as NAME=VALUE, and import again'
const KEPT = 'nothing to set'
const RULES = 'write rules of access, as docs/access-rules.md says'

/** What is to do about variables that have no setting, or one that is not quite the same. */
const ADVICE: Readonly<Record<string, string>> = {
  NAME_ID_MAPPING:
    'translated; the user is the e-mail address, else sAMAccountName, else the name ID',
  AUTHORIZE_VALUES:
    'translated only together with AUTHORIZE_ATTRIBUTE, without values that have a *: in a rule it stands for any text',
  ENTITY_ID:
    'there is no setting; give the identity provider https://DOMAIN/saml/metadata as the entity ID',
  INITIATE_SESSION_PATH: `visitors would pass without a login; if that is meant, ${RULES}`,
  ATTRIBUTE_HEADER_WILDCARD: 'name each header under identity.names',
  AUTH_VERIFY: 'the reverse proxy asks forwardAuth.listenAddress, as docs/forward-auth.md says',
  AUTH_VERIFY_PATH: 'as for AUTH_VERIFY',
  AUTH_VERIFY_REQUIRE_LOGIN: 'as for AUTH_VERIFY',
  IDP_CA_PATH: 'name the file in NODE_EXTRA_CA_CERTS of the service',
  NEW_AUTH_WEBHOOK_URL: 'there is no webhook; the log has a line signed in for each login',
  SP_KEY_PATH: `${KEPT}: authproxy makes a key of its own; give the identity provider the new certificate`,
  SP_CERT_PATH: 'as for SP_KEY_PATH',
  COOKIE_NAME: KEPT,
  COOKIE_DOMAIN: `${KEPT}: each host has an instance of its own`,
  ENCRYPT_JWT: `${KEPT}: sessions are always encrypted`,
  STATIC_RELAY_STATE: `${KEPT}: the RelayState is the ID of the login`,
}

const FORMATS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    email: 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress',
    unspecified: 'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified',
    persistent: 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
    transient: 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient',
  }),
)

function membersOf(list = ''): readonly string[] {
  return list
    .split(',')
    .map(member => member.trim())
    .filter(member => member !== '')
}

/** The seconds of a duration as Go writes it: `1h30m`. */
function secondsIn(duration: string): string {
  const units: Readonly<Record<string, number>> = { h: 3600, m: 60, s: 1 }
  const parts = [...duration.matchAll(/([\d.]+)([hms])/g)]
  return `${parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (units[unit] ?? 0), 0)}s`
}
