/**
 * Writes the script `/_cachesvc/setup.sh`, and the detection script that it installs. apt asks that one whether this service
 * answers. Pure.
 */
import { aptFile, type Setting } from './example.ts'

/** Where the detection script is installed. */
export const scriptFile = '/usr/local/bin/apt-proxy-detect'

/** What the first line of both files says, by which the script knows its own. */
const mark = 'Written by setup.sh of cachesvc'

/** Needs what every Debian has: sh, timeout (coreutils) and perl-base. */
export function detectionScript({ here }: Pick<Setting, 'here'>): string {
  return `#!/bin/sh
# Tells apt which proxy to use: the cache if it answers within a second that this machine may use it.
# Needs the essential packages only: dash, coreutils, perl-base.
proxy='${here.url}'
host='${here.host}'
port='${here.port}'

# shellcheck disable=SC2016 # perl's variables
if timeout 1 perl -MIO::Socket::IP -e '
  my ($host, $port, $authority) = @ARGV;
  my $cache = IO::Socket::IP->new(PeerHost => $host, PeerPort => $port)
    or exit 1;
  print $cache join("\\r\\n", "GET /_cachesvc/allowed HTTP/1.1",
    "Host: $authority", "Connection: close", "", "");
  my $status = <$cache> // "";
  exit($status =~ m{^HTTP/1[.][01] 2} ? 0 : 1);
' "$host" "$port" "\${proxy#*//}" 2>/dev/null; then
  echo "$proxy"
else
  echo DIRECT
fi`
}

/**
 * A script for plain sh that configures apt on a client. It can be run again, `--undo` takes back what it did, and a download that
 * broke off does nothing.
 */
export function setupScript(setting: Pick<Setting, 'here'>): string {
  const [first = '', ...rest] = detectionScript(setting).split('\n')
  return `#!/bin/sh
# Makes apt use the cache at ${setting.here.url} while it answers, and the archives directly while it does not.
#
#   sh setup.sh                    writes ${aptFile} and ${scriptFile}
#   sh setup.sh --undo             removes them, and restores an earlier ${aptFile}
#   sh setup.sh --root DIRECTORY   does either in the system in that directory, such as an image
#
# Nothing else is changed. https:// sources are still fetched directly.
set -eu

conf=${aptFile}
detect=${scriptFile}
mark='${mark}'

fail() {
  echo "setup.sh: $1" >&2
  exit 1
}

detection_script() {
  cat <<'END'
${first}
# ${mark}.
${rest.join('\n')}
END
}

# Puts standard input into a file, in one step.
install_file() { # FILE MODE
  mkdir -p "\${1%/*}"
  cat >"$1.new"
  chmod "$2" "$1.new"
  mv -f "$1.new" "$1"
}

is_ours() {
  grep -qsF "$mark" "$1"
}

install() {
  [ ! -e "$root$detect" ] || is_ours "$root$detect" || fail "$root$detect is not of this script: move it away first"
  # A file with this ending is ignored by apt.
  [ ! -e "$root$conf" ] || is_ours "$root$conf" || mv -f "$root$conf" "$root$conf.save"
  detection_script | install_file "$root$detect" 755
  printf '// %s.\\nAcquire::http::Proxy-Auto-Detect "%s";\\n' "$mark" "$detect" | install_file "$root$conf" 644
  echo "Written: $root$conf, $root$detect"
  for file in "$root/etc/apt/apt.conf" "$root"/etc/apt/apt.conf.d/*; do
    case $file in *.save | "$root$conf") continue ;; esac
    if grep -qsiE '^[[:space:]]*Acquire::(http::)?Proxy' "$file"; then
      echo "Look at $file: it sets a proxy as well, and may take precedence."
    fi
  done
  case $(sh "$root$detect") in
    DIRECT) echo 'The cache does not answer now, or this machine is in no network of its setting clients. apt goes to the archives directly until that changes.' ;;
    *) echo 'The cache answers: apt uses it from now on.' ;;
  esac
}

undo() {
  for file in "$root$conf" "$root$detect"; do
    if is_ours "$file"; then
      rm -f "$file"
      echo "Removed: $file"
    fi
  done
  if [ -e "$root$conf.save" ] && [ ! -e "$root$conf" ]; then
    mv "$root$conf.save" "$root$conf"
    echo "Restored: $root$conf"
  fi
}

main() {
  action=install root=
  while [ $# -gt 0 ]; do
    case $1 in
      --undo) action=undo ;;
      --root)
        [ $# -gt 1 ] || fail '--root needs a directory'
        root=\${2%/}
        shift ;;
      *) fail "there is no option $1: see the first lines of this script" ;;
    esac
    shift
  done
  [ -d "$root/etc/apt" ] || fail "there is no $root/etc/apt: this needs a system with apt"
  [ -w "$root/etc/apt" ] || fail 'run it as root: sudo sh setup.sh'
  "$action"
}

# One command in braces: the shell runs nothing of it when the download broke off.
{
  main "$@"
}
`
}
