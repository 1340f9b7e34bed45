# shellcheck shell=sh
# Read by bin/cachesvc and bin/authproxy, which set $self and $name, and $options for Node.js: finds Node.js, checks its version, and
# becomes the program. A package that brings Node.js has it beside this file.
# shellcheck disable=SC2154 # self and name are theirs
root=${self%/bin/*}
program=$root/dist/bin/$name.js
needed=20.18

fail() {
  echo "$name: $1" >&2
  exit 1
}

advice="Where to get it: Debian 13 and Ubuntu 25.10 have one (apt install nodejs; npm too in a checkout); others: https://nodejs.org/en/download or
https://github.com/nodesource/distributions"
node=$root/bin/node
[ -x "$node" ] || node=$(command -v node || command -v nodejs) || fail "Node.js $needed or newer is needed; there is none in $PATH.
$advice"
version=$("$node" --version) || fail "$node --version failed; Node.js $needed or newer is needed.
$advice"
minor=${version#*.}
case "${version%%.*} ${minor%%.*}" in
  v?\ * | v1?\ * | v20\ ? | v20\ 1[0-7]) fail "Node.js $needed or newer is needed; $node is $version.
$advice" ;;
esac
[ -f "$program" ] || fail "$program is missing; build it with: npm ci && npm run build"

# Reads of the disk and look-ups of names share this many threads; Node's own default is 4.
export UV_THREADPOOL_SIZE="${UV_THREADPOOL_SIZE:-16}"
# Node 20 warns on the terminal that Ed25519 keys of repositories are read by a part of it that may change. That concerns no user.
# shellcheck disable=SC2086 # one word each, or none
exec "$node" --disable-warning=ExperimentalWarning ${options:-} "$program" "$@"
