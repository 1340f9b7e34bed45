import t from 'tap'
import { confinementProblem } from '../../../lib/cache/cli/service-directory.ts'

const shown = (more: string) =>
  `LoadState=loaded\nProtectSystem=strict\nCacheDirectory=cachesvc\n${more}`

t.test('a directory the unit may not write to is told with the drop-in', async t => {
  const problem = confinementProblem(shown('ReadWritePaths=\n'), '/srv/cachesvc')
  t.match(problem, /^cache_directory: cachesvc\.service may not write to \/srv\/cachesvc/)
  t.match(problem, /`\[Service\]` and `ReadWritePaths=\/srv\/cachesvc`/)
  t.match(confinementProblem(shown('ReadWritePaths=/srv/cache\n'), '/srv/cachesvc'), /may not/)
})

t.test('nothing is said where the unit may write', async t => {
  t.equal(confinementProblem(shown('ReadWritePaths=\n'), '/var/cache/cachesvc'), undefined)
  t.equal(confinementProblem(shown('ReadWritePaths=/data -/srv\n'), '/srv/cachesvc'), undefined)
  t.equal(confinementProblem('LoadState=not-found\nProtectSystem=\n', '/srv/cachesvc'), undefined)
  t.equal(confinementProblem('LoadState=loaded\nProtectSystem=no\n', '/srv/cachesvc'), undefined)
})
