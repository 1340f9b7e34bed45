# bash completion for authproxy
_authproxy() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local commands='serve doctor explain status reload rotate-keys socket-unit access sessions import dev-idp demo'
  local words='--config --config-dir --check-config --dump-config --help --version'
  local command='' word instances=''
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ " $commands " == *" $word "* ]]; then command=$word; break; fi
  done
  case $previous in
    -c | --config | --log | --users | --encrypt-to)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return ;;
    --config-dir)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return ;;
    --profile)
      mapfile -t COMPREPLY < <(compgen -W 'entra adfs okta google keycloak shibboleth' -- "$current")
      return ;;
    --groups | --user | --attribute | --age | --context | --method | --listen | --for | --port) return ;;
  esac
  case $command in
    dev-idp) words='--listen --profile --users --encrypt-to --encrypt-parts --want-signed --for --help --version' ;;
    demo) words='--port --profile --users --encrypt --help --version' ;;
    *) instances=$(cd /etc/authproxy 2>/dev/null && compgen -G '*.yaml' | sed 's/[.]yaml$//') ;;
  esac
  case $command in
    sessions) words='end --config --config-dir --user --help --version' ;;
    '') words="$commands $words" ;;
    doctor) words+=' --groups' ;;
    rotate-keys) words+=' --now' ;;
    socket-unit) words+=' --checks' ;;
    access) words='--config --config-dir --user --groups --attribute --age --context --method --log --suggest --help --version' ;;
    import) words='--help --version' instances='' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words $instances" -- "$current")
}
complete -F _authproxy authproxy
