#!/bin/bash
# nginx as a caching forward proxy for APT archives, in the foreground on 127.0.0.1:$PORT. State below $STATE; $WORKERS processes.
# Pool and by-hash are kept for a year, everything else below /dists/ is revalidated each second; one fetch per object, stale on error.
set -euo pipefail
: "${PORT:?}" "${STATE:?}"
mkdir -p "$STATE"/{cache,tmp}
cat >"$STATE/nginx.conf" <<CONF
daemon off;
pid $STATE/pid;
error_log $STATE/error.log warn;
worker_processes ${WORKERS:-1};
worker_rlimit_nofile 8192;
$([ "$(id -u)" = 0 ] && echo "user root;")
events { worker_connections 4096; }
http {
  default_type application/octet-stream;
  access_log $STATE/access.log combined buffer=64k flush=1s;
  sendfile on; tcp_nopush on; tcp_nodelay on; aio threads;
  keepalive_timeout 120s; keepalive_requests 10000000;
  open_file_cache max=8192 inactive=60s;
  client_body_temp_path $STATE/tmp/body; proxy_temp_path $STATE/tmp/proxy; fastcgi_temp_path $STATE/tmp/fastcgi;
  uwsgi_temp_path $STATE/tmp/uwsgi; scgi_temp_path $STATE/tmp/scgi;
  proxy_cache_path $STATE/cache levels=1:2 keys_zone=apt:32m max_size=20g inactive=365d use_temp_path=off;
  server {
    listen 127.0.0.1:$PORT backlog=2048;
    proxy_http_version 1.1; proxy_set_header Host \$http_host; proxy_set_header Connection "";
    proxy_cache apt; proxy_cache_key \$http_host\$request_uri;
    proxy_cache_lock on; proxy_cache_lock_timeout 10m; proxy_cache_lock_age 10m; proxy_cache_revalidate on;
    proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504;
    proxy_ignore_headers Cache-Control Expires Set-Cookie Vary; proxy_force_ranges on;
    proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;
    add_header X-Cache \$upstream_cache_status;
    location / { proxy_cache_valid 200 365d; proxy_pass http://\$http_host\$request_uri; }
    location ~ "/dists/(?!.*/by-hash/)" { proxy_cache_valid 200 1s; proxy_pass http://\$http_host\$request_uri; }
  }
}
CONF
exec nginx -p "$STATE" -c "$STATE/nginx.conf"
