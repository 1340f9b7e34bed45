/**
 * Which settings a reload cannot apply to a running instance. Pure.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Config } from './config.ts'

/** Names of changed settings that wait for a restart, as they stand in the file. */
export function needRestart(before: Config, after: Config): readonly string[] {
  const fixed: ReadonlyArray<readonly [name: string, of: (config: Config) => unknown]> = [
    ['domain', config => config.domain],
    ['idpMetadataURL or idpMetadataFile', config => config.saml.idpMetadata],
    ['idpEntityID', config => config.saml.idpEntityId],
    ['idpMetadataCertificate', config => config.saml.idpMetadataCertificate],
    ['proxy.listenAddress', config => config.listen],
    ['configPath', config => config.configPath],
    ['session.revocation', config => config.session.revocation],
    ['admin.listenAddress', config => config.admin],
    ['limits', ({ limits: { head, fields, connections } }) => [head, fields, connections]],
    [
      'timeouts',
      ({ timeouts: { clientHead, clientIdle, clientTaking, drain } }) => [
        ...[clientHead, clientIdle, clientTaking, drain],
      ],
    ],
  ]
  return fixed.filter(([, of]) => !isDeepStrictEqual(of(before), of(after))).map(([name]) => name)
}
