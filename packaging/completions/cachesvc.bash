# bash completion for cachesvc
_cachesvc() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local commands='serve verify-repos explain get list status stats remove refresh changes release import export build retention reload socket-unit'
  local words='--config --cache-dir --listen --check-config --dump-config --help --version'
  local command='' word
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ " $commands " == *" $word "* ]]; then command=$word; break; fi
  done
  case $previous in
    -c | --config | -o | --output)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return ;;
    --cache-dir)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return ;;
    --sort)
      mapfile -t COMPREPLY < <(compgen -W 'url size used' -- "$current")
      return ;;
    --format)
      mapfile -t COMPREPLY < <(compgen -W 'bundle list spdx' -- "$current")
      return ;;
    --listen | --archive | --suite | --until | --reason) return ;;
  esac
  case $command in
    '') words="$commands $words" ;;
    verify-repos) words+=' --dry-run --json' ;;
    get) words+=' --output' ;;
    list) words+=' --sort --json' ;;
    status | stats) words+=' --json' ;;
    changes) words+=' --suite --json' ;;
    release) words+=' --suite --now --until --reason' ;;
    remove | refresh | import) words+=' --dry-run' ;;
    retention) words+=' --dry-run --json' ;;
    export) words+=' --archive --suite' ;;
    build) words+=' list show record lock unlock remove fetch import export --format --json' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  case $command in
    import | export | build)
      compopt -o filenames
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
  esac
}
complete -F _cachesvc cachesvc
