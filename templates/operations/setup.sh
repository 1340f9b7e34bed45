#!/bin/sh
# Makes apt use the cache at {{urls}}: the first that answers, and the archives directly while none does.
# Nothing else than what follows is changed. https:// sources are still fetched directly.
set -eu

usage() {
  cat <<'END'
  sh setup.sh                    writes {{aptFile}} and {{scriptFile}}
  sh setup.sh --snapshots        as well tells apt --snapshot where the snapshots of each archive are
  sh setup.sh --undo             removes them, and restores an earlier {{aptFile}}
  sh setup.sh --root DIRECTORY   does either in the system in that directory, such as an image
END
}

conf={{aptFile}}
detect={{scriptFile}}
mark='Written by setup.sh of cachesvc'

fail() {
  echo "setup.sh: $1" >&2
  exit 1
}

detection_script() {
  cat <<'END'
#!/bin/sh
# Written by setup.sh of cachesvc.
{{detection}}
END
}

# Puts standard input into a file, in one step.
install_file() { # FILE MODE
  mkdir -p "${1%/*}"
  cat >"$1.new"
  chmod "$2" "$1.new"
  mv -f "$1.new" "$1"
}

# Templates for apt --snapshot (apt 3). The services of Debian and Ubuntu are asked through the cache, with HTTPS///. For all other
# archives in the sources of this system the cache gives what it has kept (suites.snapshot_days).
snapshot_templates() {
  template() { printf 'Acquire::Snapshots::URI::%s "%s/";\n' "$1" "$2"; }
  domain=debian.org
  debian=http://HTTPS///snapshot.$domain/archive
  ubuntu=http://HTTPS///snapshot.ubuntu.com
  launchpad=http://HTTPS///snapshot.ppa.launchpadcontent.net/@PATH@/@SNAPSHOTID@
  template Override::Label::Debian-Security "$debian/debian-security/@SNAPSHOTID@"
  template Origin::Debian "$debian/debian/@SNAPSHOTID@"
  template "Host::deb.$domain" "$debian/@PATH@/@SNAPSHOTID@"
  template Origin::Ubuntu "$ubuntu/ubuntu/@SNAPSHOTID@"
  for host in archive.ubuntu.com .archive.ubuntu.com security.ubuntu.com; do
    template "Host::$host" "$ubuntu/@PATH@/@SNAPSHOTID@"
  done
  for host in ppa.launchpad.net ppa.launchpadcontent.net; do
    template "Host::$host" "$launchpad"
  done
  kept='{{first}}/_cachesvc/snapshot/@SNAPSHOTID@'
  own='{{first}}'
  cat "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*.list "$root"/etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -e '/^[[:space:]]*#/d' -e 's,://[^/@[:space:]]*@,://,g' |
    { grep -oiE 'https?://[a-z0-9.-]+(:[0-9]+)?(/|[[:space:]]|$)' || :; } | tr -d '[:blank:]' | sort -u |
    while IFS= read -r source; do
      scheme=${source%%:*} at=${source#*://}
      at=${at%/}
      host=${at%:*}
      case $at in
        # These have their snapshots elsewhere.
        *.debian.org | archive.ubuntu.com | *.archive.ubuntu.com | security.ubuntu.com) ;;
        ppa.launchpad.net | ppa.launchpadcontent.net) ;;
        # The sources that name this cache, or HTTPS, have the archive in their path.
        "${own#*://}") template "Host::$host" "$kept/@PATH@" ;;
        [Hh][Tt][Tt][Pp][Ss]) template "Host::$host" "$kept/HTTPS//@PATH@" ;;
        *)
          case $scheme in
            [Hh][Tt][Tt][Pp]) template "Host::$host" "$kept/$at/@PATH@" ;;
            *) template "Host::$host" "$kept/HTTPS///$at/@PATH@" ;;
          esac ;;
      esac
    done
}

is_ours() {
  grep -qsF "$mark" "$1"
}

install() {
  [ ! -e "$root$detect" ] || is_ours "$root$detect" || fail "$root$detect is not of this script: move it away first"
  # A file with this ending is ignored by apt.
  [ ! -e "$root$conf" ] || is_ours "$root$conf" || mv -f "$root$conf" "$root$conf.save"
  detection_script | install_file "$root$detect" 755
  {
    printf '// %s.\nAcquire::http::Proxy-Auto-Detect "%s";\n' "$mark" "$detect"
    [ "$snapshots" = no ] || snapshot_templates
  } | install_file "$root$conf" 644
  echo "Written: $root$conf, $root$detect"
  for file in "$root/etc/apt/apt.conf" "$root"/etc/apt/apt.conf.d/*; do
    case $file in *.save | "$root$conf") continue ;; esac
    if grep -qsiE '^[[:space:]]*Acquire::(http::)?Proxy' "$file"; then
      echo "Look at $file: it sets a proxy as well, and may take precedence."
    fi
  done
  answering=$(sh "$root$detect")
  case $answering in
    DIRECT) echo 'The cache does not answer now, or this machine is in no network of its setting clients. apt goes to the archives directly until that changes; the log of this machine then has a line of apt-proxy-detect.' ;;
    *) echo "The cache answers: apt uses it from now on, $answering at present." ;;
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
  snapshots=no action=install root=
  while [ $# -gt 0 ]; do
    case $1 in
      --snapshots) snapshots=yes ;;
      --undo) action=undo ;;
      --root)
        [ $# -gt 1 ] || fail '--root needs a directory'
        root=${2%/}
        shift ;;
      -h | --help)
        usage
        exit 0 ;;
      *) fail "there is no option $1: see sh setup.sh --help" ;;
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
