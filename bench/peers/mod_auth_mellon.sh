#!/bin/bash
# Apache with mod_auth_mellon in front of the origin at 127.0.0.1:$ORIGIN_PORT, in the foreground on 127.0.0.1:$PORT. State below $STATE,
# where idp.xml is the metadata of the identity provider. Its public address is https://$DOMAIN.
set -euo pipefail
: "${PORT:?}" "${STATE:?}" "${ORIGIN_PORT:?}" "${DOMAIN:?}"
mkdir -p "$STATE"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=$DOMAIN" \
  -keyout "$STATE/sp.key" -out "$STATE/sp.crt" 2>>"$STATE/openssl.log"
modules=/usr/lib/apache2/modules
cat >"$STATE/apache.conf" <<CONF
ServerRoot $STATE
ServerName https://$DOMAIN
UseCanonicalName On
PidFile $STATE/pid
Mutex file:$STATE default
User $([ "$(id -u)" = 0 ] && echo www-data || id -un)
Group $([ "$(id -u)" = 0 ] && echo www-data || id -gn)
Listen 127.0.0.1:$PORT
ListenBacklog 2048
LoadModule mpm_event_module $modules/mod_mpm_event.so
$(for module in authn_core authz_core authz_user headers proxy proxy_http proxy_wstunnel auth_mellon; do
  echo "LoadModule ${module}_module $modules/mod_$module.so"
done)
ServerLimit 2
StartServers 2
ThreadsPerChild 300
ThreadLimit 300
MaxRequestWorkers 600
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 120
Timeout 120
ErrorLog $STATE/error.log
LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" combined
CustomLog $STATE/access.log combined
BufferedLogs On
<Location />
  AuthType Mellon
  Require valid-user
  MellonEnable auth
  MellonEndpointPath /mellon
  MellonSPentityId https://$DOMAIN/mellon/metadata
  MellonSPPrivateKeyFile $STATE/sp.key
  MellonSPCertFile $STATE/sp.crt
  MellonIdPMetadataFile $STATE/idp.xml
  MellonSecureCookie On
  RequestHeader set X-Remote-User "expr=%{REMOTE_USER}"
</Location>
ProxyPreserveHost On
ProxyPass /mellon !
ProxyPass / http://127.0.0.1:$ORIGIN_PORT/ upgrade=websocket keepalive=On
CONF
exec apache2 -f "$STATE/apache.conf" -DFOREGROUND
