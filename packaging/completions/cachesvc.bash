# bash completion for cachesvc
_cachesvc() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local commands='serve verify-repos explain get list status stats remove refresh changes release recall import export fetch build run retention reload socket-unit'
  local words='--config --cache-dir --listen --check-config --dump-config --help --version'
  local command='' word
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ " $commands " == *" $word "* ]]; then command=$word; break; fi
  done
  case $previous in
    -c | --config | -o | --output | --after | --packages | --keyring | --lock)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return ;;
    --cache-dir | --store)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return ;;
    --sort)
      mapfile -t COMPREPLY < <(compgen -W 'url size used' -- "$current")
      return ;;
    --format)
      mapfile -t COMPREPLY < <(compgen -W 'bundle list spdx cyclonedx in-toto' -- "$current")
      return ;;
    --listen | --archive | --suite | --until | --reason | --from | --component | --arch | --client | --field) return ;;
  esac
  case $command in
    '') words="$commands $words" ;;
    verify-repos) words+=' --dry-run --json' ;;
    explain) words+=' --client --field --head' ;;
    get) words+=' --output' ;;
    list) words+=' --sort --json' ;;
    status | stats) words+=' --json' ;;
    recall) words+=' --json' ;;
    changes) words+=' --suite --json' ;;
    release) words+=' --suite --now --until --reason' ;;
    remove | refresh | import) words+=' --dry-run' ;;
    retention) words+=' --dry-run --json' ;;
    export) words+=' --archive --suite --after' ;;
    fetch) words+=' --packages --from --suite --component --arch --keyring --with-dependencies --sources' ;;
    run) words+=' --store --lock' ;;
    build) words+=' list show record lock unlock remove fetch import export verify --format --json' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  case $command in
    import | export | build | run)
      compopt -o filenames
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
  esac
}
complete -F _cachesvc cachesvc
