/**
 * Suites with and without a delay in the random walk of test/cache/suites/suite-walk.ts: beside all that holds there, a generation that
 * waits never leaves early.
 */
import { SuiteDelays } from '../../../../lib/cache/features/delay/suite-delays.ts'
import { testWalks } from '../../../fixtures/suites/test-walks.ts'

testWalks(parts => new SuiteDelays(parts as never))
