/**
 * Loads the configuration of an instance: from the environment alone when that is complete, else from its YAML file. The two
 * are never mixed.
 */
import { join } from 'node:path'
import type { LoadResult } from '../../../config/config-file.ts'
import { proxyVariable } from '../../../config/proxy-url.ts'
import { type Check, type InFile, type Remark, remarkText } from '../../../config/reading.ts'
import { checkRelations } from '../../../config/relations.ts'
import { checkSettings, valueAt } from '../../../config/settings.ts'
import { type Config, configOf } from '../config.ts'
import { type Environment, problemPlace, readEnvironment } from '../environment.ts'
import { foreignNames } from '../foreign-names.ts'
import { withSecrets } from '../secret-files.ts'
import { tokenRules } from '../setting-access.ts'
import { settings } from '../settings.ts'
import { checkAccess } from './check-access.ts'
import { crossCheck } from './check-config.ts'

export interface ConfigPlace {
  /** Names the instance: its file, its dynamic file, its log lines. */
  readonly instance: string
  /** The file named outright, instead of `<configDirectory>/<instance>.yaml`. */
  readonly file: string | undefined
  readonly configDirectory: string
  readonly environment: Environment
}

/** The configuration or all its problems, and its source: the name of a file, or `the environment`. */
export type LoadedConfig = LoadResult<Config> & {
  readonly from: string
  readonly notes: readonly string[]
}

/** Reads the configuration; never throws. */
export async function loadConfig(place: ConfigPlace): Promise<LoadedConfig> {
  const loaded = await loadFrom(place)
  const note = loaded.ok ? ignoredProxyNote(loaded.value, place.environment) : undefined
  return note === undefined ? loaded : { ...loaded, notes: [...loaded.notes, note] }
}

async function loadFrom(place: ConfigPlace): Promise<LoadedConfig> {
  const set = readEnvironment(place.environment)
  const { links } = set
  const linked =
    links.length === 0
      ? []
      : [
          `${links.length} variables of the environment, such as ${links[0]}, are not settings: Kubernetes sets them for a Service whose name begins with "authproxy"; enableServiceLinks: false in the pod leaves them out`,
        ]
  if (set.is === 'complete') {
    const notes = [...linked, 'the environment is complete and used alone; no file is read']
    return { ...fromEnvironment(set, place), from: 'the environment', notes }
  }
  const file = place.file ?? join(place.configDirectory, `${place.instance}.yaml`)
  // The YAML parser is loaded only for a file.
  const { loadConfigFile } = await import('../../../config/config-file.ts')
  const loaded = await loadConfigFile(file, configCheck(place.instance, place.environment))
  const notes =
    set.is === 'absent'
      ? []
      : [
          `${set.present.join(', ')} ${set.present.length === 1 ? 'is' : 'are'} not used: a complete environment also needs ${set.missing.join(', ')}; ${file} is read alone`,
        ]
  return { ...loaded, from: file, notes: [...linked, ...notes] }
}

/** The variable of the environment that would name a proxy for the metadata to other programs, and what to set in its place. */
export function proxyForMetadata(
  metadata: Config['saml']['idpMetadata'],
  environment: Environment,
): ReturnType<typeof proxyVariable> {
  if (metadata.from === 'file') return undefined
  return proxyVariable(environment, [/^http:/i.test(metadata.url) ? 'http' : 'https'])
}

function ignoredProxyNote({ saml }: Config, environment: Environment): string | undefined {
  if (saml.idpMetadataProxy !== undefined) return undefined
  const named = proxyForMetadata(saml.idpMetadata, environment)
  if (named === undefined) return undefined
  return `the environment sets ${named.name}, which is ignored: the metadata is fetched directly. If only that proxy leads to the identity provider, set idpMetadataProxy: ${named.url}`
}

/** The check of the settings of an instance, for both sources. `environment` names the place of credentials. */
export function configCheck(instance: string, environment: Environment = {}): Check<Config> {
  const check = checkSettings(settings, foreignNames)
  return (found, file) => {
    const checked = check(found)
    const sources = [...sourceProblems(found), ...emptyAccess(found), ...emptyScopes(file?.empty)]
    if (!checked.ok) return { ...checked, problems: [...sources, ...checked.problems] }
    const whole = withSecrets(checked.value, { instance, environment })
    const together = [
      checkRelations(settings, found, checked.value),
      crossCheck(checked.value),
      checkAccess(checked.value),
      checkAccess(checked.value, ['tokens', 'access'], tokenRules(checked.value)),
      whole,
    ]
    const problems = together.flatMap(found => found.problems)
    const warnings = together.flatMap(found => found.warnings)
    return sources.length + problems.length > 0
      ? { ok: false, problems: [...sources, ...problems], warnings }
      : { ok: true, value: configOf(whole.values, instance, file?.lineOf), warnings }
  }
}

function fromEnvironment(
  set: Extract<ReturnType<typeof readEnvironment>, { is: 'complete' }>,
  { instance, environment }: ConfigPlace,
): LoadResult<Config> {
  const checked = configCheck(instance, environment)(set.found)
  const line = (remark: Remark) =>
    remarkText(remark, remark.path.length === 0 ? '' : problemPlace(remark.path))
  const unknown = set.unknown.map(({ name, near }) => {
    return `${name}: no such setting${near === undefined ? '; unset it' : `; did you mean ${near}?`}`
  })
  const warnings = checked.warnings.map(line)
  if (checked.ok && unknown.length === 0) return { ok: true, value: checked.value, warnings }
  const problems = checked.ok ? [] : checked.problems.map(line)
  return { ok: false, problems: [...unknown, ...problems], warnings }
}

/** The metadata of the identity provider has one source: an address or a file. */
function sourceProblems(found: unknown): Remark[] {
  const sources = ['idpMetadataURL', 'idpMetadataFile']
  const count = sources.filter(key => valueAt(found, [key]) !== undefined).length
  if (count === 1) return []
  const text =
    count === 0
      ? 'no IdP metadata source set: name idpMetadataURL or idpMetadataFile'
      : 'two IdP metadata sources set: leave idpMetadataURL or idpMetadataFile'
  return [{ path: [], at: 'value', text }]
}

/**
 * The problems of keys without a value in rules, in both kinds of tokens and `forwardAuth`. A key without a value counts as absent. There that
 * would let in more than the file seems to say: no group is required, the token is for all paths, the edge needs no secret.
 */
function emptyScopes(empty: InFile['empty'] = []): Remark[] {
  return empty
    .filter(
      ([key, member]) =>
        key === 'access' ||
        (['passthroughTokens', 'forwardAuth', 'tokens'].includes(String(key)) &&
          member !== undefined),
    )
    .map(path => ({ path, at: 'key', text: 'has no value; write one, or take the key out' }))
}

/** A list without rules would refuse everything, and reads as if it did nothing. */
function emptyAccess(found: unknown): Remark[] {
  const text =
    'is a list without rules; leave the setting out to let in all who are signed in, or write rules'
  return [['access'], ['tokens', 'access']].flatMap((path): Remark[] => {
    const rules = valueAt(found, path)
    return Array.isArray(rules) && rules.length === 0 ? [{ path, at: 'value', text }] : []
  })
}
