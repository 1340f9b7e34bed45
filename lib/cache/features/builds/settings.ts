/**
 * The settings of builds.
 */
import { network } from '../../../config/address-kinds.ts'
import { integer, size } from '../../../config/setting-kinds.ts'
import { group, listOf, setting } from '../../../config/settings.ts'

const builds = group(
  'Builds that can be repeated: what a build was given is recorded, and given again byte for byte ([builds](builds.md)).',
  {
    clients: setting(listOf(network, 'networks'), [], 'builds:\n  clients: [192.0.2.0/28]').says(
      'Networks whose clients may begin a recording by naming a build that is not there. With networks here, only their clients add to recordings. Without, `cachesvc build record` alone begins one, and every client adds to it. Each client may ask for what is recorded.',
    ),
    most: setting(integer(1, 10_000), 100).says('Maximum number of builds, recorded and locked.'),
    size: setting(size('1M', '1024T'), '10G').says(
      'Maximum bytes of what builds were given, each content counted once. It stays whatever `retention` and `expiration` say, until the build is removed. With `retention.size` it is at most half of that. Above it, files are given but not recorded, and `cachesvc build lock` says which.',
    ),
  },
)

export const buildSettings = { root: { builds } }
