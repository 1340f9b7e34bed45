/**
 * The command line of cachesvc: its commands and options, and the text of `--help`.
 */
import { day } from '../../async/clock.ts'
import { type CommandLine, type Program, pathOption } from '../../command-line.ts'
import { readListenAddress } from '../../config/address-kinds.ts'
import { mismatch, type ReadResult, readResult } from '../../config/reading.ts'

export type Line = CommandLine<typeof cachesvc>

const listOrders = ['url', 'size', 'used'] as const

export type ListOrder = (typeof listOrders)[number]

const buildFormats = ['bundle', 'list', 'spdx'] as const

export type BuildFormat = (typeof buildFormats)[number]

function oneOf<Word extends string>(words: readonly Word[], what: string) {
  return (text: string): ReadResult<Word> => {
    const word = words.find(one => one === text)
    return word === undefined ? mismatch(text, what) : readResult(word)
  }
}

/** A moment as milliseconds since the epoch. A day means its end. */
function readMoment(text: string): ReadResult<number> {
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text)
  const parsed = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN
  if (Number.isNaN(parsed))
    return mismatch(text, 'a day such as 2026-11-01 or a moment such as 2026-11-01T08:00Z')
  return readResult(isDay ? parsed + day : parsed)
}

export const cachesvc = {
  name: 'cachesvc',
  usage: ['[serve] [OPTION]...', 'COMMAND [OPTION]...', 'run [OPTION]... -- COMMAND...'],
  about:
    'A caching proxy for APT archives. Files that one machine has fetched are served to the others from the cache, even while the archive cannot be reached. Each response says whether it came from the cache, and why.',
  commands: {
    serve: { summary: 'run the proxy; this is the default' },
    'verify-repos': { summary: 'check all stored files, remove wrong ones' },
    explain: { operands: 'URL', summary: 'say how a request for URL would be answered, and why' },
    get: { operands: 'URL', summary: 'fetch a file through the running proxy' },
    list: { operands: '[PATTERN]', summary: 'list stored files' },
    status: { summary: 'say whether the running proxy is well, and what it does' },
    stats: { summary: 'show requests and traffic, today and by day' },
    remove: { operands: 'URL|PATTERN', summary: 'remove stored files' },
    refresh: {
      operands: 'URL|PATTERN',
      summary: 'have the next request for stored files ask the origin',
    },
    changes: {
      operands: 'ARCHIVE',
      summary: 'list versions of packages that a delay keeps from clients',
    },
    release: {
      operands: 'ARCHIVE',
      summary: 'let through what a delay or a hold keeps from clients',
    },
    import: {
      operands: 'FILE|DIR',
      summary: 'take over a bundle, or packages from another cache',
    },
    export: { operands: 'FILE|DIR', summary: 'write stored files as a bundle' },
    fetch: {
      summary: 'fill the store with the packages of a list, for a site without a connection',
    },
    build: {
      operands: '[ACTION] [NAME] [FILE]',
      summary:
        'list, show, record, lock, unlock, remove, fetch, import or export a build that can be repeated',
    },
    run: {
      operands: 'COMMAND...',
      summary: 'run a command with a proxy of its own, whose store stays in a directory',
    },
    retention: { summary: 'with --dry-run, list the files that are removed next, and why' },
    reload: { summary: 'have the running proxy read its configuration again' },
    'socket-unit': { summary: 'print the configured addresses for cachesvc.socket of systemd' },
  },
  options: {
    config: {
      short: 'c',
      value: 'FILE',
      read: pathOption,
      help: 'read FILE instead of /etc/cachesvc/cachesvc.yaml',
    },
    'cache-dir': { value: 'DIR', read: pathOption, help: 'keep stored files in DIR' },
    listen: {
      value: 'ADDRESS:PORT',
      many: true,
      read: readListenAddress,
      help: 'listen there; may be repeated; [IPV6]:PORT and :PORT are understood as well',
    },
    'check-config': { help: 'check the configuration, print all problems, exit' },
    'dump-config': {
      help: 'print the configuration in force, with the source of each value and secrets hidden, exit',
    },
    'dry-run': {
      of: ['verify-repos', 'remove', 'refresh', 'import', 'retention'],
      help: 'change nothing, only say what would be changed',
    },
    archive: {
      of: ['export', 'fetch'],
      value: 'PLACE',
      many: true,
      help: 'only files of this host, or of this host and path; may be repeated; for fetch the URL of one archive',
    },
    suite: {
      of: ['export', 'changes', 'release', 'fetch'],
      value: 'NAME',
      many: true,
      help: 'only this suite, in a bundle with the packages its indexes name; may be repeated',
    },
    component: {
      of: ['fetch'],
      value: 'NAME',
      many: true,
      help: 'a component of these suites, `main` if none is named; may be repeated',
    },
    arch: {
      of: ['fetch'],
      value: 'NAME',
      help: 'the architecture, such as amd64; that of this machine if not named',
    },
    keyring: {
      of: ['fetch'],
      value: 'FILE',
      read: pathOption,
      help: 'the keys of the archive; those that apt trusts if not named',
    },
    packages: {
      of: ['fetch'],
      value: 'FILE',
      read: pathOption,
      help: 'the list of packages, a line for each, as apt-get install takes them',
    },
    'with-dependencies': {
      of: ['fetch'],
      help: 'and all that they depend on, as on a new machine',
    },
    sources: { of: ['fetch'], help: 'and their sources' },
    after: {
      of: ['export'],
      value: 'FILE',
      read: pathOption,
      help: 'only what the bundle FILE and those before it do not have',
    },
    now: { of: ['release'], help: 'let through what waits now; this is the default' },
    until: {
      of: ['release'],
      value: 'DATE',
      read: readMoment,
      help: 'let through all that comes until DATE, a day or a moment (ISO 8601), in UTC',
    },
    reason: { of: ['release'], value: 'TEXT', help: 'why; it is logged and shown' },
    sort: {
      of: ['list'],
      value: 'ORDER',
      default: 'url',
      read: oneOf(listOrders, 'url, size or used'),
      help: 'list by `url`, by `size`, the largest first, or by last use, `used`, the latest first',
    },
    output: {
      short: 'o',
      of: ['get'],
      value: 'FILE',
      read: pathOption,
      help: 'write to FILE and not to standard output',
    },
    format: {
      of: ['build'],
      value: 'FORMAT',
      default: 'bundle',
      read: oneOf(buildFormats, 'bundle, list or spdx'),
      help: 'export a build as a `bundle`, a `list` or `spdx`; the last two are printed when no FILE is named',
    },
    store: {
      of: ['run'],
      value: 'DIR',
      read: pathOption,
      help: 'keep the store in DIR and not in ~/.cache/cachesvc-run',
    },
    lock: {
      of: ['run'],
      value: 'FILE',
      read: pathOption,
      help: 'write to FILE what the command was given; when there is a FILE, give the same, and fail on another package',
    },
    json: {
      of: ['verify-repos', 'list', 'status', 'stats', 'changes', 'build', 'retention'],
      help: 'print JSON',
    },
  },
  notes: `Environment:
  CACHESVC_CONFIG          configuration file when --config is not given
  CACHESVC_CACHE_DIR       cache directory when --cache-dir is not given

Exit status: 0 fine, 1 failure, 2 wrong usage, 78 wrong configuration.
SIGTERM lets running transfers finish, SIGHUP reads the configuration again.

It runs without any configuration: on port 3142, for the machines of private
networks. To make a machine use it, with PROXY the name of this host:

  echo 'Acquire::http::Proxy "http://PROXY:3142";' |
    sudo tee /etc/apt/apt.conf.d/30cachesvc

Manuals: cachesvc(8), cachesvc.yaml(5). Pages: http://PROXY:3142/_cachesvc/
`,
} as const satisfies Program
