#!/bin/bash
# varnish in front of the origin at 127.0.0.1:$ORIGIN_PORT, asked like a proxy, in the foreground on 127.0.0.1:$PORT. State below $STATE.
# It is no forward proxy: it knows this one origin. Its log goes to shared memory, as always; contents lie in one file.
set -euo pipefail
: "${PORT:?}" "${STATE:?}" "${ORIGIN_PORT:?}"
mkdir -p "$STATE"
cat >"$STATE/cache.vcl" <<VCL
vcl 4.1;
backend origin { .host = "127.0.0.1"; .port = "$ORIGIN_PORT"; }
sub vcl_recv {
  set req.url = regsub(req.url, "^http://[^/]+", "");
  if (req.method == "GET" || req.method == "HEAD") { return (hash); }
  return (synth(405));
}
sub vcl_backend_response {
  set beresp.do_stream = true;
  set beresp.keep = 30d;
  if (beresp.status != 200) { set beresp.ttl = 0s; }
  elsif (bereq.url ~ "/dists/" && bereq.url !~ "/by-hash/") { set beresp.ttl = 1s; set beresp.grace = 1d; }
  else { set beresp.ttl = 365d; }
}
VCL
exec varnishd -F -n "$STATE/run" -a "127.0.0.1:$PORT" -f "$STATE/cache.vcl" -s "file,$STATE/contents,8g"
