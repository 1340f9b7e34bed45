/**
 * Histories of archives by chance, through the cache and without it: the share from seed 20000.
 */
import { compareByChance } from '../../fixtures/compare/tests.ts'

compareByChance(20000)
