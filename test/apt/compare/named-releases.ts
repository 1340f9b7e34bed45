/**
 * Histories that caches were seen to get wrong, of the group "releases": each through the cache is no worse than without it.
 */
import { compareNamed } from '../../fixtures/compare/tests.ts'

compareNamed('releases')
