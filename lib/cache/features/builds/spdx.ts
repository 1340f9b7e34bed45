/**
 * A build as a bill of materials: SPDX 2.3 in JSON, with a package for each file that the build got.
 *
 * # Facts
 * - Files of SPDX 2.3 need a SHA-1 (section 8.4), packages do not (section 7.10). So every file is a package with one file.
 * - File names of packages lack the epoch of the version.
 * - A package URL of the type `deb` needs a vendor. The path of an archive tells it for Debian and Ubuntu only.
 */

import { hash } from 'node:crypto'
import { jsonText } from '../../../json.ts'
import { packageFile } from '../../store/upkeep/versions.ts'
import { type Build, type GivenFile, isFile } from './build.ts'
import { listText } from './build-file.ts'

/** The document, which has the same bytes for the same build. `by` is the program with its version, such as `cachesvc-1.0`. */
export function spdxText(build: Build, by: string): string {
  const { name, begun, locked, answers } = build
  const files = [...answers].flatMap(([url, answer]) =>
    isFile(answer) ? [{ url, ...answer }] : [],
  )
  files.sort((a, b) => (a.url < b.url ? -1 : 1))
  const packages = files.map(packageOf)
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

function packageOf({ url, digest }: Pick<GivenFile, 'digest'> & { readonly url: string }) {
  const found = packageFile(url)
  const fileName = url.slice(url.lastIndexOf('/') + 1)
  const [, name = fileName, architecture] =
    /^([^_]+)_([^_]+)\.u?deb$/.exec(found?.name.split('/').at(-1) ?? '') ?? []
  const vendor = /^https?:\/\/[^/]+\/(debian|ubuntu)(?=[/-])/.exec(url)?.[1]
  const locator =
    found !== undefined && vendor !== undefined && architecture !== undefined
      ? `pkg:deb/${vendor}/${encodeURIComponent(name)}@${encodeURIComponent(found.version)}?arch=${architecture}`
      : undefined
  return {
    // Section 3.2 allows letters, digits, dots and hyphens.
    SPDXID: `SPDXRef-${hash('sha256', url).slice(0, 32)}`,
    name,
    ...(found !== undefined && { versionInfo: found.version }),
    packageFileName: fileName,
    downloadLocation: url,
    filesAnalyzed: false,
    checksums: [{ algorithm: 'SHA256', checksumValue: digest }],
    ...(locator !== undefined && {
      externalRefs: [
        {
          referenceCategory: 'PACKAGE-MANAGER',
          referenceType: 'purl',
          referenceLocator: locator,
        },
      ],
    }),
  }
}
