/**
 * The settings of the regular verification.
 */
import { duration, size } from '../../../config/setting-kinds.ts'
import { setting } from '../../../config/settings.ts'

export const verificationSettings = {
  verification: {
    interval: setting(duration('0s', '365d'), '1d').says(
      'Time from the end of one check to the start of the next. 0 switches checks off.',
    ),
    rate: setting(size('0', '100G'), '64M').says(
      'Maximum bytes that a check reads in a second, so that requests are not slowed down. 0 is no limit.',
    ),
  },
}
