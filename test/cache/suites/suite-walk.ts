/**
 * Suites whose origin publishes, lags, loses files and fails while clients, other nodes and an operator want something of them at the
 * same time: clients never go back, a mix of generations never leaves, the forms of a Release file do not cancel each other, and nothing
 * is left of a removed suite (test/fixtures/suites/walked-suites.ts). test/cache/features/delay/suite-walk.ts has the same with a delay.
 *
 * More by hand: `TAP_TIMEOUT=3600 FIRST=1 SEEDS=700 node --enable-source-maps dist/test/cache/suites/suite-walk.js`
 */
import { testWalks } from '../../fixtures/suites/test-walks.ts'

testWalks()
