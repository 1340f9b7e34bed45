/**
 * The command line of cachesvc: its commands and options, and the text of `--help`.
 */
import {
  type CommandLine,
  oneOfWords,
  type Program,
  pathOption,
  withCommands,
} from '../../command-line.ts'
import { readListenAddress } from '../../config/address-kinds.ts'
import { mismatch, type ReadResult, readResult } from '../../config/reading.ts'
import { isToken } from '../../http/message/field.ts'
import { isIP } from '../../ip.ts'
import { features } from '../features.ts'

export type Line = CommandLine<typeof core>

function readClient(text: string): ReadResult<string> {
  return isIP(text) ? readResult(text) : mismatch(text, 'an IP address')
}

/** Reads a field line as curl takes it: a name, a colon and a value. */
function readField(text: string): ReadResult<readonly [name: string, value: string]> {
  const [, name = '', value = ''] = /^([^:]+):\s*(.*?)\s*$/.exec(text) ?? []
  return isToken(name) ? readResult([name, value] as const) : mismatch(text, 'NAME:VALUE')
}

const listOrders = ['url', 'size', 'used'] as const

export type ListOrder = (typeof listOrders)[number]

/** The commands and options of the core. */
const core = {
  name: 'cachesvc',
  usage: ['[serve] [OPTION]...', 'COMMAND [OPTION]...'],
  about:
    'A caching proxy for APT archives. Files that one machine has fetched are served to the others from the cache, even while the archive cannot be reached. Each response says whether it came from the cache, and why.',
  commands: {
    serve: { summary: 'run the proxy; this is the default' },
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
      of: ['remove', 'refresh', 'retention'],
      help: 'change nothing, only say what would be changed',
    },
    suite: {
      of: [],
      value: 'NAME',
      many: true,
      help: 'only this suite, in a bundle with the packages its indexes name; may be repeated',
    },
    sort: {
      of: ['list'],
      value: 'ORDER',
      default: 'url',
      read: oneOfWords(listOrders, 'url, size or used'),
      help: 'list by `url`, by `size`, the largest first, or by last use, `used`, the latest first',
    },
    output: {
      short: 'o',
      of: ['get'],
      value: 'FILE',
      read: pathOption,
      help: 'write to FILE and not to standard output',
    },
    client: {
      of: ['explain'],
      value: 'ADDRESS',
      read: readClient,
      help: 'explain a request of this client; any client that is allowed when not given',
    },
    field: {
      of: ['explain'],
      value: 'NAME:VALUE',
      many: true,
      read: readField,
      help: 'explain a request with this field, such as "Accept: text/html"; may be repeated',
    },
    head: { of: ['explain'], help: 'explain a HEAD request' },
    json: {
      of: ['list', 'status', 'stats', 'retention'],
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

/** The whole program, with the commands of the features. */
export const cachesvc = withCommands(
  core,
  features.flatMap(({ commands }) => commands ?? []),
)
