/**
 * Files of an instance beside its dynamic configuration.
 */

/** The last failures, for `authproxy explain`. */
export function failuresFile(configPath: string): string {
  return `${configPath}.failures.json`
}

/** Sessions that ended before their time. */
export function revocationsFile(configPath: string): string {
  return `${configPath}.revoked.json`
}
