/**
 * Histories of archives by chance, through the cache and without it: the share from seed 30000.
 */
import { compareByChance } from '../../fixtures/compare/tests.ts'

compareByChance(30000)
