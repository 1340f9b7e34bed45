#compdef cachesvc
# zsh completion for cachesvc
_cachesvc() {
  local -a commands
  commands=(
    'serve:run the proxy; this is the default'
    'verify-repos:check all stored files, remove wrong ones'
    'explain:say how a request for URL would be answered, and why'
    'get:fetch a file through the running proxy'
    'list:list stored files'
    'status:say whether the running proxy is well, and what it does'
    'stats:show requests and traffic, today and by day'
    'remove:remove stored files'
    'refresh:have the next request for stored files ask the origin'
    'changes:list versions of packages that a delay keeps from clients'
    'release:let through what a delay or a hold keeps from clients'
    'recall:list the clients that were given a package in the last 90 days'
    'import:take over a bundle, or packages from another cache'
    'export:write stored files as a bundle'
    'fetch:fill the store with the packages of a list, for a site without a connection'
    'build:list, show, record, lock, unlock, remove, fetch, import, export or verify a build that can be repeated'
    'run:run a command, behind --, with a proxy of its own whose store stays in a directory'
    'retention:with --dry-run, list the files that are removed next, and why'
    'reload:have the running proxy read its configuration again'
    'socket-unit:print the configured addresses for cachesvc.socket of systemd'
  )
  _arguments -s \
    '(-c --config)'{-c,--config}'[read FILE instead of /etc/cachesvc/cachesvc.yaml]:FILE:_files' \
    '--cache-dir[keep stored files in DIR]:DIR:_files -/' \
    '*--listen[listen there; may be repeated; \[IPV6\]\:PORT and \:PORT are understood as well]:ADDRESS\:PORT: ' \
    '--check-config[check the configuration, print all problems, exit]' \
    '--dump-config[print the configuration in force, with the source of each value and secrets hidden, exit]' \
    '--dry-run[verify-repos, remove, refresh, import, retention\: change nothing, only say what would be changed]' \
    '*--archive[export\: only files of this host, or of this host and path; may be repeated]:PLACE: ' \
    '*--suite[changes, release, export, fetch\: only this suite, in a bundle with the packages its indexes name; may be repeated]:NAME: ' \
    '--after[export\: only what the bundle FILE and those before it do not have]:FILE:_files' \
    '--packages[fetch\: the list of packages, a line for each, as apt-get install takes them]:FILE:_files' \
    '--from[fetch\: the archive; if not given, the sources of apt on this machine]:URL: ' \
    '*--component[fetch\: a component of the suites, main if none is named; may be repeated]:NAME: ' \
    '--arch[fetch\: the architecture, such as amd64; that of this machine if not given]:NAME: ' \
    '--keyring[fetch\: the keys of the archive; those that apt trusts if not given]:FILE:_files' \
    '--with-dependencies[fetch\: and all that they depend on, as on a new machine]' \
    '--sources[fetch\: and their sources]' \
    '--store[run\: keep the store in DIR and not in ~/.cache/cachesvc-run]:DIR:_files -/' \
    '--lock[run\: write to FILE what the command was given; when there is a FILE, give the same, and fail on another package]:FILE:_files' \
    '--now[release\: let through what waits now; this is the default]' \
    '--until[release\: let through all that comes until DATE, a day or a moment (ISO 8601), in UTC]:DATE: ' \
    '--reason[release\: why; it is logged and shown]:TEXT: ' \
    '--client[explain\: explain a request of this client; any client that is allowed when not given]:ADDRESS: ' \
    '*--field[explain\: explain a request with this field, such as "Accept\: text/html"; may be repeated]:NAME\:VALUE: ' \
    '--head[explain\: explain a HEAD request]' \
    '--sort[list\: list by url, by size, the largest first, or by last use, the latest first]:ORDER:(url size used)' \
    '(-o --output)'{-o,--output}'[get\: write to FILE and not to standard output]:FILE:_files' \
    '--format[build\: export a build as a bundle, a list, spdx, cyclonedx or in-toto; all but the first are printed when no FILE is named]:FORMAT:(bundle list spdx cyclonedx in-toto)' \
    '--json[verify-repos, list, status, stats, changes, recall, build, retention\: print JSON]' \
    '(-h --help)'{-h,--help}'[print the help and exit]' \
    '(-v --version)'{-v,--version}'[print the version and exit]' \
    '1:command:{ _describe command commands }' \
    '*:file:_files'
}
_cachesvc "$@"
