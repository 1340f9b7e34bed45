/**
 * The settings of denied packages, and of the record of what clients were given.
 */
import { absolutePath, boolean } from '../../../config/setting-kinds.ts'
import { group, oneOrMore, setting } from '../../../config/settings.ts'

export const denySettings = {
  root: {
    deny: setting(oneOrMore(absolutePath, 'paths'), [], 'deny: /etc/cachesvc/deny.yaml').says(
      'Files with packages that no client gets, stored or not: it is answered 403 with the reason, which apt prints. They are read again within a second of a change. They have rows in YAML, or are advisories (OSV) or Debian’s security tracker in JSON (`docs/deny.md`).',
    ),
    statistics: group('Statistics of what clients were given.', {
      recall: setting(boolean, true).says(
        'Whether `cachesvc recall` knows which client was given which package in the last 90 days. The record has addresses of clients, which are personal data. `false` ends it and deletes it.',
      ),
    }),
  },
}
