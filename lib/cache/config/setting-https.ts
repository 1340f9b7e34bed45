/**
 * The part of cachesvc.yaml about HTTPS: what becomes of tunnels, and the certificates that takes.
 */
import { absolutePath, boolean, duration, secretText } from '../../config/setting-kinds.ts'
import { group, listOf, orNothing, setting } from '../../config/settings.ts'
import { hostName, hostPattern, httpUrl } from './setting-kinds.ts'

export const https = group(
  'What becomes of HTTPS, that is of CONNECT: a tunnel that is carried through unread, one that is opened, read and cached with certificates of a CA of your own, or a refusal. Hosts under `passthrough_domains` are tunnelled; for the others the closest pattern in the three lists below decides, and `https.intercept` for hosts in none of them. Origins asked for as `http://HTTPS///host/path` are fetched and cached in every case.',
  {
    prevent: setting(boolean, false).says('Whether CONNECT is refused altogether, with 403.'),
    intercept: setting(boolean, false).says(
      'Whether tunnels are opened and read, so that what they carry is cached. Clients have to trust the CA: `/_cachesvc/cachesvc.crt` is its certificate, and the setup page says how to install it. The certificate of the origin is always verified.',
      'Within an opened tunnel the host asked for has to be that of the tunnel, and is subject to the same policy as any other.',
    ),
    intercept_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
      'Hosts whose tunnels are opened even when `https.intercept` is false.',
    ),
    tunnel_domains: setting(listOf(hostPattern, 'host patterns'), []).says(
      'Hosts whose tunnels are never opened, such as those that ask for client certificates.',
    ),
    refuse_domains: setting(
      listOf(hostPattern, 'host patterns'),
      [],
      'https:\n  intercept: true\n  tunnel_domains: [esm.example.com]\n  refuse_domains: [.example.net]',
    ).says('Hosts that CONNECT may not reach: 403.'),
    cert: setting(orNothing(absolutePath), '').says(
      'PEM file with the certificate of the CA, root or intermediate, and the certificates between it and its root, in any order. Without it a CA is made on first start and kept in `authority.pem` in the cache directory, limited to the hosts under `domains` if there are any.',
      'The service does not start with a certificate that is no CA, is not valid now, or does not belong to the key: it says so and ends with 78. From 30 days before its end it warns.',
    ),
    key: setting(orNothing(absolutePath), '').says(
      'PEM file with the private key of the CA: RSA, or EC on P-256, P-384 or P-521; in PKCS#8, PKCS#1 or SEC 1 form, encrypted or not. Without it the key stands in the file of `https.cert`.',
    ),
    password: setting(secretText, '').says('Password of an encrypted private key.'),
    certificate_domain: setting(orNothing(hostName), '').says(
      'Name of this proxy for what certificates say: it is in the certificate of the TLS listener, and the host of the addresses of the CA certificate and the revocation list in every certificate made.',
    ),
    aia_address: setting(orNothing(httpUrl), '').says(
      'URL of the CA certificate, written into every certificate made. Empty: made from `https.certificate_domain` if that is set, else left out.',
    ),
    enable_crl: setting(boolean, false).says(
      'Whether a certificate revocation list is made, every half hour, and served at `/_cachesvc/revocation.crl`. With `https.certificate_domain` its address is written into every certificate made. Nothing is ever revoked: certificates live for a day.',
    ),
    origin_ca: setting(listOf(absolutePath, 'paths'), []).says(
      'PEM files with certificates of CAs that origins may have theirs from, besides the well-known ones.',
    ),
    remember_distrust: setting(duration('0s', '7d'), '1h').says(
      'For how long the tunnels of a client to a host are left closed after it has rejected our certificate for that host, so that it works unread instead of not at all. 0 opens them every time.',
    ),
  },
)
