/**
 * Finds the settings that a reload cannot apply to a running instance, and keeps the old values in force. Pure.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Config } from './config.ts'

/** Names of changed settings that wait for a restart, as they stand in the file. */
export function needRestart(started: Config, wanted: Config): readonly string[] {
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
  return fixed.filter(([, of]) => !isDeepStrictEqual(of(started), of(wanted))).map(([name]) => name)
}

/** What is in force after a reload: as wanted, but as started where only a restart helps. Nothing is ever half applied. */
export function inForce(started: Config, wanted: Config): Config {
  const { domain, baseUrl, listen, configPath, admin } = started
  const { entityId, acsUrl, sloUrl, metadataCacheFile, usedIdsFile } = started.saml
  const { idpMetadata, idpEntityId, idpMetadataCertificate } = started.saml
  const { head, fields, connections } = started.limits
  const { clientHead, clientIdle, clientTaking, drain } = started.timeouts
  return {
    ...wanted,
    ...{ domain, baseUrl, listen, configPath, admin },
    saml: {
      ...wanted.saml,
      ...{ domain, baseUrl, entityId, acsUrl, sloUrl, metadataCacheFile, usedIdsFile },
      ...{ idpMetadata, idpEntityId, idpMetadataCertificate },
    },
    session: { ...wanted.session, revocation: started.session.revocation },
    limits: { ...wanted.limits, head, fields, connections },
    timeouts: { ...wanted.timeouts, clientHead, clientIdle, clientTaking, drain },
  }
}
