#!/bin/bash
# nginx in the foreground on 127.0.0.1:$PORT, which asks a static location of its own before each answer (auth_request). Each target is
# one small file. State below $STATE; $WORKERS processes.
set -euo pipefail
: "${PORT:?}" "${STATE:?}"
mkdir -p "$STATE"/tmp "$STATE"/www
head -c 1000 /dev/zero >"$STATE/www/file"
: >"$STATE/www/check"
cat >"$STATE/nginx.conf" <<CONF
daemon off;
pid $STATE/pid;
error_log $STATE/error.log warn;
worker_processes ${WORKERS:-1};
worker_rlimit_nofile 8192;
$([ "$(id -u)" = 0 ] && echo "user root;")
events { worker_connections 4096; }
http {
  access_log $STATE/access.log combined buffer=64k flush=1s;
  tcp_nodelay on; keepalive_timeout 120s; keepalive_requests 10000000;
  open_file_cache max=1000 inactive=60s;
  client_body_temp_path $STATE/tmp/body; proxy_temp_path $STATE/tmp/proxy; fastcgi_temp_path $STATE/tmp/fastcgi;
  uwsgi_temp_path $STATE/tmp/uwsgi; scgi_temp_path $STATE/tmp/scgi;
  server {
    listen 127.0.0.1:$PORT backlog=2048;
    root $STATE/www;
    location / { auth_request /check; try_files /file =404; }
    location = /check { internal; }
  }
}
CONF
exec nginx -p "$STATE" -c "$STATE/nginx.conf"
