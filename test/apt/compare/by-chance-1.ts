/**
 * Histories of archives by chance, through the cache and without it: the share from seed 10000.
 */
import { compareByChance } from '../../fixtures/compare/tests.ts'

compareByChance(10000)
