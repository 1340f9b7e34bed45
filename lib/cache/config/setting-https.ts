/**
 * The settings of cachesvc.yaml for HTTPS: tunnels, interception and certificates.
 */
import { absolutePath, boolean, duration, secretText } from '../../config/setting-kinds.ts'
import { group, listOf, orNothing, setting } from '../../config/settings.ts'
import { hostName, hostPattern, httpUrl } from './setting-kinds.ts'

export const https = group(
  'HTTPS through the proxy, that is CONNECT. A tunnel is carried through unread; or it is intercepted, so that its requests are read and cached, with certificates of a CA that clients trust; or it is refused. The closest pattern in the three lists below decides. For hosts in none of them `https.intercept` decides, except that hosts under `passthrough_domains` are tunnelled. Files asked for as `http://HTTPS///host/path` are cached in each case.',
  {
    prevent: setting(boolean, false).says('Whether all CONNECT requests are refused with 403.'),
    intercept: setting(boolean, false).says(
      'Whether tunnels are intercepted, so that their requests are cached. Clients have to trust the CA: `/_cachesvc/cachesvc.crt` is its certificate, and the setup page says how to install it. The certificate of the origin is always verified.',
      'Requests inside an intercepted tunnel have to name the host of the tunnel. The policy applies to them as to all requests.',
    ),
    intercept_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
      'Hosts whose tunnels are intercepted even when `https.intercept` is false.',
    ),
    tunnel_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
      'Hosts whose tunnels are never intercepted, such as those that ask for client certificates.',
    ),
    refuse_domains: setting(
      listOf(hostPattern, 'host patterns'),
      [],
      'https:\n  intercept: true\n  tunnel_domains: [esm.example.com]\n  refuse_domains: [.example.net]',
    ).says('Hosts to which CONNECT is refused with 403.'),
    cert: setting(orNothing(absolutePath), '').says(
      'PEM file with the certificate of the CA, root or intermediate, and the certificates between it and its root, in any order. Without it the service makes a CA when it first starts and keeps it in `authority.pem` in the cache directory. If there are `domains`, this CA is limited to them, to `https.intercept_domains` and to the names of the proxy.',
      'With a certificate that is no CA, is not valid now, or does not belong to the key, the service does not start and exits with 78. It warns from 30 days before the certificate ends.',
    ),
    key: setting(orNothing(absolutePath), '').says(
      'PEM file with the private key of the CA: RSA, or EC on P-256, P-384 or P-521; in PKCS#8, PKCS#1 or SEC 1 form, encrypted or not. Without it the key is in the file of `https.cert`.',
    ),
    password: setting(secretText, '').says('Password of an encrypted private key.'),
    certificate_domain: setting(orNothing(hostName), '').says(
      'Name of this proxy in certificates: the certificate of the TLS listener is for this name, and all certificates name it as the host of the CA certificate and the revocation list.',
    ),
    aia_address: setting(orNothing(httpUrl), '').says(
      'URL of the CA certificate, written into all certificates. Empty: made from `https.certificate_domain` if that is set, else left out.',
    ),
    enable_crl: setting(boolean, false).says(
      'Whether a certificate revocation list is made each half hour and served at `/_cachesvc/revocation.crl`. With `https.certificate_domain` its address is written into all certificates. The list is empty, because certificates are valid for one day only.',
    ),
    origin_ca: setting(listOf(absolutePath, 'paths'), []).says(
      'PEM files with certificates of CAs that are trusted for origins, besides the well-known ones.',
    ),
    remember_distrust: setting(duration('0s', '7d'), '1h').says(
      'Time for which a client’s tunnels to a host are not intercepted after the client has rejected the certificate for that host. The client then works, without caching. 0 intercepts each time.',
    ),
  },
)
