#!/bin/bash
# squid as an APT proxy, in the foreground on 127.0.0.1:$PORT, one process. State below $STATE.
# Packages and by-hash stay fresh for months whatever the client asks, Release files and indexes are revalidated on every request.
set -euo pipefail
: "${PORT:?}" "${STATE:?}"
mkdir -p "$STATE/cache"
[ "$(id -u)" = 0 ] && chown proxy "$STATE" "$STATE/cache"
cat >"$STATE/squid.conf" <<CONF
http_port 127.0.0.1:$PORT
visible_hostname localhost
$([ "$(id -u)" = 0 ] && echo "cache_effective_user proxy")
pid_filename $STATE/pid
coredump_dir $STATE
cache_log $STATE/cache.log
access_log daemon:$STATE/access.log squid
cache_dir aufs $STATE/cache 20000 16 64
cache_mem 256 MB
maximum_object_size 4 GB
maximum_object_size_in_memory 1 MB
cache_replacement_policy heap LFUDA
collapsed_forwarding on
quick_abort_min -1 KB
max_filedescriptors 8192
pinger_enable off
shutdown_lifetime 1 second
refresh_pattern -i \.(deb|udeb|dsc|tar\.[a-z0-9]+)\$ 259200 100% 259200
refresh_pattern /by-hash/ 259200 100% 259200
refresh_pattern /(InRelease|Release|Release\.gpg)\$ 0 0% 0 refresh-ims
refresh_pattern /(Packages|Sources|Contents-[^/]*|Translation-[^/]*)(\.[a-z0-9]+)?\$ 0 0% 0 refresh-ims
refresh_pattern . 0 20% 1440
http_access allow localhost
http_access deny all
CONF
squid -N -z -f "$STATE/squid.conf" >/dev/null 2>&1 || true
exec squid -N -f "$STATE/squid.conf"
