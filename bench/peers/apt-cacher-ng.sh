#!/bin/bash
# apt-cacher-ng with the configuration its package installs, in the foreground on 127.0.0.1:$PORT. State below $STATE.
# Changed: own directories, any port and CONNECT target allowed, no remapping to the distributions' mirrors.
set -euo pipefail
: "${PORT:?}" "${STATE:?}"
mkdir -p "$STATE"/{conf,cache,log}
cp -rL /etc/apt-cacher-ng/. "$STATE/conf"
sed -i 's/^Remap-/# &/' "$STATE/conf/acng.conf"
cat >"$STATE/conf/zz-own.conf" <<CONF
Port: $PORT
BindAddress: 127.0.0.1
CacheDir: $STATE/cache
LogDir: $STATE/log
PidFile: $STATE/pid
AllowUserPorts: 0
PassThroughPattern: .*
CONF
exec apt-cacher-ng -c "$STATE/conf" ForeGround=1
