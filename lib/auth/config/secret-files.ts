/**
 * Reads secrets from files of their own, which the configuration names: by a path, or as a credential of the service manager
 * (systemd.exec(5), LoadCredential=). The service reads them with the configuration, at each start and reload.
 *
 * # Facts
 * - systemd names the directory of the credentials in CREDENTIALS_DIRECTORY, to the service alone. Commands in a shell find the
 *   credentials of the running service in the directory where systemd keeps them.
 * - No message quotes what a file holds.
 */
import { readProxyUrl } from '../../config/proxy-url.ts'
import {
  type Path,
  type ReadResult,
  readFailure,
  readResult,
  valueRemarks,
} from '../../config/reading.ts'
import {
  credentialName,
  readableByOthers,
  readSecretFile,
  type SecretContext,
  secretFile,
} from '../../config/secret-place.ts'
import { unreadableReason } from '../../errors.ts'
import type { Environment } from './environment.ts'
import { readSha256, readToken } from './setting-kinds.ts'
import type { SettingValues } from './settings.ts'

/** The values of the settings, and the secrets that stand in files alone. */
export type WholeValues = ReturnType<typeof withSecrets>['values']

/** The values with the secrets of files in their places, and what is wrong with those files. */
export function withSecrets(
  values: SettingValues,
  { instance, environment }: { readonly instance: string; readonly environment: Environment },
) {
  const of = { service: `authproxy@${instance}.service`, environment }
  const remarks = valueRemarks()
  const from = <T>(
    place: string | undefined,
    path: Path,
    read: (text: string) => ReadResult<T>,
  ): T | undefined => {
    if (place === undefined) return undefined
    const found = contentOf(place, of)
    const outcome = found.ok ? read(found.value.text) : found
    if (!outcome.ok) remarks.wrong(path, `${place}: ${outcome.problem}`)
    if (found.ok && found.value.isReadableByOthers) remarks.warn(path, readableByOthers)
    return outcome.ok ? outcome.value : undefined
  }
  const passthroughTokens = values.passthroughTokens.map((each, index) => {
    const path = ['passthroughTokens', index]
    return {
      ...each,
      token: each.token ?? from(each.tokenFile, [...path, 'tokenFile'], readToken),
      sha256: each.sha256 ?? from(each.sha256File, [...path, 'sha256File'], readSum),
    }
  })
  const idpMetadataProxy =
    values.idpMetadataProxy ??
    from(values.idpMetadataProxyFile, ['idpMetadataProxyFile'], readProxyUrl)
  const { targetClientKey: key } = values.proxy
  const proxy = { ...values.proxy, targetClientKey: key && secretFile(key, of) }
  const { field, valueFile } = values.backendCredential
  const backendCredential = { field, valueFile: valueFile && secretFile(valueFile, of) }
  const edgeSecret = from(values.forwardAuth.secretFile, ['forwardAuth', 'secretFile'], readToken)
  const forwardAuth = { ...values.forwardAuth, edgeSecret }
  const { passwordFile, sentinelPasswordFile } = values.state
  const state = {
    ...values.state,
    password: from(passwordFile, ['state', 'passwordFile'], readPassword),
    sentinelPassword: from(sentinelPasswordFile, ['state', 'sentinelPasswordFile'], readPassword),
  }
  const keys = { ...values.keys, file: values.keys.file && secretFile(values.keys.file, of) }
  const named = { proxy, backendCredential, forwardAuth, state, keys }
  const whole = { ...values, passthroughTokens, idpMetadataProxy, ...named }
  return { ...remarks, values: whole }
}

/** A password of the store, which may have any characters but none that end a line. */
function readPassword(text: string): ReadResult<string> {
  if (text === '') return readFailure('is empty, expected a password')
  return /\p{Cc}/u.test(text)
    ? readFailure('has a control character or a second line')
    : readResult(text)
}

/** Reads a digest, alone or followed by a file name, as sha256sum prints it. */
function readSum(text: string): ReadResult<Buffer> {
  return readSha256(text.split(/\s/, 1)[0])
}

/** The text of a secret without the line break at its end, and whether other users can read it. */
function contentOf(
  place: string,
  of: SecretContext,
): ReadResult<{ readonly text: string; readonly isReadableByOthers: boolean }> {
  try {
    return readSecretFile(secretFile(place, of))
  } catch (error) {
    const mend =
      credentialName(place) !== undefined && of.environment['CREDENTIALS_DIRECTORY'] === undefined
        ? `; CREDENTIALS_DIRECTORY is not set, so it was looked for among the credentials of ${of.service} while that runs: name it in a drop-in of the service, LoadCredential=NAME:/PATH`
        : ''
    return readFailure(`${unreadableReason(error)}${mend}`)
  }
}
