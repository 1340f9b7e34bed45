/**
 * What a build got, for attestations: CycloneDX 1.6 in JSON, and the field `resolvedDependencies` of an in-toto statement with SLSA
 * provenance. The same build makes the same bytes.
 *
 * # Facts
 * - A statement names what was built, which cachesvc does not know. So the field is written alone, to be put into a statement of the builder.
 * - A resource descriptor has a `uri`, which for a package is its package URL, and a `downloadLocation` (in-toto attestation 1.0).
 */
import { hash } from 'node:crypto'
import { jsonText } from '../../../json.ts'
import { uuidOf } from '../../../uuid.ts'
import type { Build } from './build.ts'
import { listText } from './build-file.ts'
import { type Material, materialsOf } from './materials.ts'

/** The document. `version` is that of cachesvc. */
export function cycloneDxText(build: Build, version: string): string {
  const { name, begun, locked } = build
  return jsonText({
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuidOf(listText(build))}`,
    version: 1,
    metadata: {
      timestamp: new Date(locked ?? begun).toISOString(),
      tools: { components: [{ type: 'application', name: 'cachesvc', version }] },
      component: { type: 'application', 'bom-ref': `build:${name}`, name },
    },
    components: materialsOf(build).map(component),
  })
}

function component({ url, digest, name, version, purl }: Material) {
  const hashes = [{ alg: 'SHA-256', content: digest }]
  return {
    type: version === undefined ? 'file' : 'library',
    // The same file may stand below two URLs.
    'bom-ref': hash('sha256', url).slice(0, 32),
    name,
    ...(version !== undefined && { version }),
    ...(purl !== undefined && { purl }),
    hashes,
    externalReferences: [{ type: 'distribution', url, hashes }],
  }
}

/** A JSON object with the field `resolvedDependencies` alone. */
export function resolvedDependenciesText(build: Build): string {
  const resolvedDependencies = materialsOf(build).map(({ url, digest, fileName, purl = url }) => ({
    name: fileName,
    uri: purl,
    digest: { sha256: digest },
    downloadLocation: url,
  }))
  return jsonText({ resolvedDependencies })
}
