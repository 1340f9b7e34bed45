/**
 * A build as a bill of materials: SPDX 2.3 in JSON, with a package for each file that the build got.
 *
 * # Facts
 * - Files of SPDX 2.3 need a SHA-1 (section 8.4), packages do not (section 7.10). So every file is a package with one file.
 */

import { hash } from 'node:crypto'
import { jsonText } from '../../../json.ts'
import type { Build } from './build.ts'
import { listText } from './build-file.ts'
import { type Material, materialsOf } from './materials.ts'

/** The document, which has the same bytes for the same build. `by` is the program with its version, such as `cachesvc-1.0`. */
export function spdxText(build: Build, by: string): string {
  const { name, begun, locked } = build
  const packages = materialsOf(build).map(packageOf)
  const document = {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name,
    documentNamespace: `urn:cachesvc:build:${name}:sha256:${hash('sha256', listText(build))}`,
    creationInfo: {
      // Section 6.9 asks for whole seconds.
      created: `${new Date(locked ?? begun).toISOString().slice(0, 19)}Z`,
      creators: [`Tool: ${by}`],
    },
    packages,
    relationships: packages.map(({ SPDXID }) => ({
      spdxElementId: 'SPDXRef-DOCUMENT',
      relationshipType: 'DESCRIBES',
      relatedSpdxElement: SPDXID,
    })),
  }
  return jsonText(document)
}

function packageOf({ url, digest, fileName, name, version, purl }: Material) {
  return {
    // Section 3.2 allows letters, digits, dots and hyphens.
    SPDXID: `SPDXRef-${hash('sha256', url).slice(0, 32)}`,
    name,
    ...(version !== undefined && { versionInfo: version }),
    packageFileName: fileName,
    downloadLocation: url,
    filesAnalyzed: false,
    checksums: [{ algorithm: 'SHA256', checksumValue: digest }],
    ...(purl !== undefined && {
      externalRefs: [
        {
          referenceCategory: 'PACKAGE-MANAGER',
          referenceType: 'purl',
          referenceLocator: purl,
        },
      ],
    }),
  }
}
