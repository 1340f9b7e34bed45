#compdef authproxy
# zsh completion for authproxy
_authproxy() {
  local -a commands
  commands=(
    'serve:run the gateway; this is the default'
    'doctor:find what is wrong and say how to fix it'
    'explain:say why a request or a login failed'
    'status:say whether the running instance is well'
    'reload:have it read its configuration again'
    'rotate-keys:make new keys; the old ones retire later'
    'socket-unit:print its address for a socket unit of systemd'
    'access:say whether the rules of access let a request pass'
    'sessions:end all sessions of a user (sessions end --user NAME)'
    'import:translate the variables of saml-auth-proxy'
    'dev-idp:run an identity provider for development'
    'demo:try everything out on this machine'
  )
  if (( CURRENT > 2 )) && [[ $words[2] == access ]]; then
    shift words; (( CURRENT-- ))
    _arguments -s \
      '(-c --config)'{-c,--config}'[read FILE instead of DIR/INSTANCE.yaml]:FILE:_files' \
      '--config-dir[look for instances in DIR instead of /etc/authproxy]:DIR:_files -/' \
      '--user[who is signed in; without it the person is not]:NAME: ' \
      '--groups[the groups of the person, separated by commas]:LIST: ' \
      '*--attribute[another attribute of the person; may be repeated]:NAME=VALUE: ' \
      '--age[how long ago the person has signed in (0s)]:DURATION: ' \
      '--context[the authentication context of the login]:URI: ' \
      '--method[the method of the request (GET)]:METHOD: ' \
      '--log[judge the requests of a log]:FILE:_files' \
      '--suggest[with --log: write rules that allow the use in the log]' \
      '(-h --help)'{-h,--help}'[print the help and exit]' \
      '(-v --version)'{-v,--version}'[print the version and exit]'
    return
  fi
  if (( CURRENT > 2 )) && [[ $words[2] == import ]]; then
    shift words; (( CURRENT-- ))
    _arguments -s \
      '(-h --help)'{-h,--help}'[print the help and exit]' \
      '(-v --version)'{-v,--version}'[print the version and exit]' \
      '1:FILE:_files'
    return
  fi
  if (( CURRENT > 2 )) && [[ $words[2] == sessions ]]; then
    shift words; (( CURRENT-- ))
    _arguments -s \
      '(-c --config)'{-c,--config}'[read FILE instead of DIR/INSTANCE.yaml]:FILE:_files' \
      '--config-dir[look for instances in DIR instead of /etc/authproxy]:DIR:_files -/' \
      '--user[the user, as the log and X-Authproxy-User say]:NAME: ' \
      '(-h --help)'{-h,--help}'[print the help and exit]' \
      '(-v --version)'{-v,--version}'[print the version and exit]' \
      '1:verb:(end)' \
      '*:INSTANCE:_files -W /etc/authproxy -g "*.yaml(:r)"'
    return
  fi
  if (( CURRENT > 2 )) && [[ $words[2] == dev-idp ]]; then
    shift words; (( CURRENT-- ))
    _arguments -s \
      '--listen[where to listen (127.0.0.1\:8989)]:ADDRESS\:PORT: ' \
      '--profile[whose way of answering (entra)]:NAME:(entra adfs okta google keycloak shibboleth)' \
      '--users[YAML with people]:FILE:_files' \
      '--encrypt-to[encrypt assertions to this certificate; a gateway serves its own at /saml/certificate.crt]:FILE:_files' \
      '--encrypt-parts[encrypt the name and every attribute on its own, and not the assertion]' \
      '--want-signed[say in the metadata that requests are to be signed]' \
      '*--for[also serve a gateway with the domain HOST, which is no name of this machine alone; may be repeated]:HOST: ' \
      '(-h --help)'{-h,--help}'[print the help and exit]' \
      '(-v --version)'{-v,--version}'[print the version and exit]'
    return
  fi
  if (( CURRENT > 2 )) && [[ $words[2] == demo ]]; then
    shift words; (( CURRENT-- ))
    _arguments -s \
      '--port[the public port (8443); the identity provider has the next one]:PORT: ' \
      '--profile[whose way of answering (entra)]:NAME:(entra adfs okta google keycloak shibboleth)' \
      '--users[people, as for authproxy dev-idp]:FILE:_files' \
      '--encrypt[encrypt assertions]' \
      '(-h --help)'{-h,--help}'[print the help and exit]' \
      '(-v --version)'{-v,--version}'[print the version and exit]'
    return
  fi
  _arguments -s \
    '(-c --config)'{-c,--config}'[read FILE instead of DIR/INSTANCE.yaml]:FILE:_files' \
    '--config-dir[look for instances in DIR instead of /etc/authproxy]:DIR:_files -/' \
    '--check-config[check the configuration, the metadata and the places it writes to, print every problem, exit]' \
    '--dump-config[print the configuration in force, with the source of each value and secrets hidden, exit]' \
    '--now[rotate-keys\: the new keys sign at once, and not when the others know them]' \
    '--checks[socket-unit\: that of forwardAuth, for authproxy-checks@INSTANCE.socket]' \
    '--groups[doctor\: how many groups a user is in]:NUMBER: ' \
    '(-h --help)'{-h,--help}'[print the help and exit]' \
    '(-v --version)'{-v,--version}'[print the version and exit]' \
    '1:command:{ _describe command commands }' \
    '*:INSTANCE:_files -W /etc/authproxy -g "*.yaml(:r)"'
}
_authproxy "$@"
