#!/bin/bash
# nginx as a plain reverse proxy without a cache, in the foreground on 127.0.0.1:$PORT, of the origin at $ORIGIN_PORT. State below
# $STATE; $WORKERS processes.
set -euo pipefail
: "${PORT:?}" "${STATE:?}" "${ORIGIN_PORT:?}"
mkdir -p "$STATE"/tmp
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
  client_body_temp_path $STATE/tmp/body; proxy_temp_path $STATE/tmp/proxy; fastcgi_temp_path $STATE/tmp/fastcgi;
  uwsgi_temp_path $STATE/tmp/uwsgi; scgi_temp_path $STATE/tmp/scgi;
  map \$http_upgrade \$connection_option { default upgrade; "" ""; }
  upstream origin { server 127.0.0.1:$ORIGIN_PORT; keepalive 512; keepalive_requests 10000000; }
  server {
    listen 127.0.0.1:$PORT backlog=2048;
    client_max_body_size 0; proxy_request_buffering off;
    proxy_http_version 1.1; proxy_set_header Host \$http_host;
    proxy_set_header Connection \$connection_option; proxy_set_header Upgrade \$http_upgrade;
    proxy_set_header X-Forwarded-For \$remote_addr; proxy_set_header X-Forwarded-Proto https;
    proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;
    location / { proxy_pass http://origin; }
  }
}
CONF
exec nginx -p "$STATE" -c "$STATE/nginx.conf"
