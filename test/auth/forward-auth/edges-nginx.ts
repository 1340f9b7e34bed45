/** nginx with the files of packaging/edges, in front of authproxy and an application: as a gateway, it lets in none but those who may. */
import t from 'tap'
import { testEdge } from '../../fixtures/edges/edge-tests.ts'

t.setTimeout(300_000)

testEdge(t, 'nginx')
