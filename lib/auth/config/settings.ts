/**
 * Every setting of an instance: key, kind, default and the manual's sentence, in the order of the manual. This is the source
 * of authproxy.yaml(5), docs/authproxy-configuration.md and the JSON Schema; `npm run manual` writes them.
 */
import { listenAddress, network } from '../../config/address-kinds.ts'
import { proxyUrl } from '../../config/proxy-url.ts'
import { secretPlace } from '../../config/secret-place.ts'
import {
  absolutePath,
  boolean,
  duration,
  integer,
  oneOf,
  size,
  text,
} from '../../config/setting-kinds.ts'
import {
  group,
  listOf,
  listOfGroups,
  optionalSetting,
  requiredSetting,
  setting,
  type ValuesOf,
} from '../../config/settings.ts'
import { access, enforcement, method, rulePath, tokenAccess } from './setting-access.ts'
import { forwardAuth } from './setting-forward-auth.ts'
import { identityToken } from './setting-identity-token.ts'
import {
  attributeName,
  chosenNames,
  domain,
  fieldName,
  loginStatus,
  moment,
  origin,
  pathPrefix,
  requestSigning,
  sentinel,
  serverName,
  sha256,
  storeUrl,
  token,
  url,
  webOrigin,
} from './setting-kinds.ts'
import { pages } from './setting-pages.ts'

const WITHOUT_TLS = 'the backend is reached without TLS'

export const settings = group('', {
  domain: requiredSetting(
    domain,
    'name the public host, such as domain: app.example.org',
    'domain: app.example.org',
  )
    .needsRestart(
      'domain',
      'baseUrl',
      'saml.domain',
      'saml.baseUrl',
      'saml.entityId',
      'saml.acsUrl',
      'saml.sloUrl',
      // No other host can be asked about.
      'forwardAuth.hosts',
    )
    .says(
      'The public host name, without scheme and path. It has to equal the Host that browsers send. A port belongs here only when the public port is not 443. Browsers send the cookies of one host to all its ports, so two instances on one host name sign each other’s users out: give each instance a host name of its own.',
    ),
  idpMetadataURL: optionalSetting(url, 'none: this or `idpMetadataFile` is required')
    .needsRestart('saml.idpMetadata', 'saml.metadataCacheFile')
    .says(
      'URL of the metadata of the identity provider. It is fetched at start and every 30 minutes, or sooner if its `cacheDuration` or `validUntil` asks for that. Only status 200 is accepted, within 30 seconds and up to 10 MiB. The last document is kept, so a start succeeds while the address cannot be reached.',
    ),
  idpMetadataFile: optionalSetting(absolutePath, 'none: this or `idpMetadataURL` is required')
    .needsRestart('saml.idpMetadata')
    .says(
      'File with the metadata of the identity provider. It is read at start and never again: after a change, restart. A reload says when the file has changed since the start.',
    ),
  idpMetadataProxy: optionalSetting(
    proxyUrl,
    'none: the address is asked directly',
    'idpMetadataProxy: http://proxy.example.org:3128',
  )
    .needsRestart('saml.idpMetadataProxy')
    .noEffectWithout('idpMetadataURL')
    .says(
      'HTTP proxy through which `idpMetadataURL` is fetched, if this machine cannot reach the identity provider itself: `http://USER:PASSWORD@HOST:PORT`, user and password percent-encoded or left out. They are never logged. The default port is 80. An https address is fetched through a tunnel (CONNECT), in which the proxy can change nothing.',
      'Requests of users never go through it. `HTTPS_PROXY` and similar variables have no effect.',
    ),
  idpMetadataProxyFile: optionalSetting(secretPlace, 'none')
    .needsRestart('saml.idpMetadataProxy')
    .noEffectWithout('idpMetadataURL')
    .excludes('idpMetadataProxy')
    .says(
      'File with what `idpMetadataProxy` would be, so that the configuration has no password: a path, or `credential:NAME` for a credential of systemd (`LoadCredential=`).',
    ),
  idpEntityID: optionalSetting(text, 'the only identity provider of the metadata')
    .needsRestart('saml.idpEntityId')
    .says('Entity ID of the identity provider to use, when the metadata describes several.'),
  idpMetadataCertificate: optionalSetting(
    absolutePath,
    'none: the signature of metadata is not checked',
  )
    .needsRestart('saml.idpMetadataCertificate')
    .says(
      'PEM file with the certificates the metadata has to be signed with. Metadata without such a signature is refused.',
    ),
  samlRequestSigning: setting(requestSigning, 'auto').says(
    'Whether authentication requests are signed. `auto` does as the metadata of the identity provider asks; `true` is `always`, `false` is `never`.',
  ),
  passthroughPaths: setting(
    listOf(pathPrefix, 'path prefixes'),
    [],
    'passthroughPaths:\n  - /static/\n  - /public/',
  ).says(
    'Literal path prefixes that are served without a login. `/api` lets `/api-admin` pass as well, `/api/` does not; `/` is refused.',
    'Prefixes are compared with the bytes that are forwarded. A path that two servers could read differently (encoded separators, dot segments, repeated slashes, semicolons, backslashes, more than 2048 characters that are not all ASCII) needs a login whatever it begins with.',
  ),
  passthroughTokens: listOfGroups(
    'list of tokens',
    {
      name: setting(text, '').says('Name of the token in the log.'),
      token: optionalSetting(token).says(
        'The token itself. Better is `sha256`: a person who reads the file cannot use that.',
      ),
      sha256: optionalSetting(sha256).says(
        'The SHA-256 of the token in hexadecimal: what `printf %s TOKEN | sha256sum` prints. Take a token that cannot be guessed, such as that of `openssl rand -hex 32`; digests of words that are guessed first are refused.',
      ),
      tokenFile: optionalSetting(secretPlace).says(
        'File with the token, instead of `token`: a path, or `credential:NAME` for a credential of systemd (`LoadCredential=`). A line break at its end is ignored. Files are read again at each reload.',
      ),
      sha256File: optionalSetting(secretPlace).says('File with the SHA-256, instead of `sha256`.'),
      expires: optionalSetting(moment, 'never').says(
        'The day, or the moment, after which the token is refused: `2030-12-31`, to its end in UTC, or `2030-12-31T12:00:00+01:00`.',
      ),
      paths: optionalSetting(listOf(rulePath, 'paths'), 'all').says(
        'Paths the token is for, compared as those of `access`: one that ends with `/` means all below. A path that servers read in different ways never matches.',
      ),
      methods: optionalSetting(listOf(method, 'methods'), 'all').says(
        'Methods the token is for, in upper case. HEAD goes with GET.',
      ),
      clients: optionalSetting(listOf(network, 'networks'), 'all').says(
        'Networks of the clients that may use the token. The address is that of the client, as `proxy.trustedProxies` decides.',
      ),
    },
    'passthroughTokens:\n  - name: monitoring\n    sha256: THE-64-DIGITS-OF-SHA256SUM\n    expires: 2030-12-31',
  ).says(
    'Tokens that pass without a login, presented as `X-Authproxy-Authorization: Bearer TOKEN`. Any other request with the token is refused as if the token were wrong. Rules of `access` do not concern requests with a token. This header never reaches the backend.',
  ),
  access,
  tokens: group(
    'Tokens that signed-in people make for their programs, at `/__authproxy/tokens`. Programs present them as `X-Authproxy-Authorization: Bearer TOKEN`, and get what the person would.',
    {
      longest: optionalSetting(
        duration('1d', '30d'),
        'none: people cannot make tokens',
        'tokens:\n  longest: 30d\n  access:\n    - path: /api/\n      allow: [{ groups: [developers] }]\n      login: { maxAge: 7d }',
      )
        .needsRestart('tokens.longest')
        .needs('session.revocation', 'the list of ended sessions is what ends a token')
        .says(
          'Longest life of a token. It has the identity of the login behind it and is never renewed. It ends on the page, with the sessions of its user, and when a login of the user brings other attributes.',
        ),
      access: optionalSetting(tokenAccess, 'none: tokens are for all that `access` allows')
        .noEffectWithout('tokens.longest')
        .says(
          'Who may use tokens, and for what: rules of the form of `access`, which has to allow a request as well. `login: { maxAge: 7d }` says how old the login behind a token may be. A reload applies it.',
        ),
    },
  ),
  accessTell: setting(boolean, true).says(
    'Whether the page for a person who is refused by a rule of `access` names the groups and attributes the rule asks for.',
  ),
  accessEnforce: setting(enforcement, 'always')
    .noEffectWithout('access')
    .says(
      'Whether rules of `access` are enforced that do not say it themselves (`enforce`). With `watch`, people who are signed in pass whatever these rules say, also where no rule matches; what enforcing would do is counted and logged. Then a rule with `allow: anyone` needs `enforce: always`.',
    ),
  cors: setting(oneOf('refuse', 'pass'), 'refuse').says(
    'What happens to CORS preflights, the OPTIONS requests by which browsers ask whether a page of another origin may call the application. `refuse` answers 401, so such a page can make only simple calls. `pass` sends them to the application without identity, cookies or credentials. The call itself needs a session as always.',
    'Only a genuine preflight passes: with `Origin` and `Access-Control-Request-Method`, without content, for an unambiguous path, and where the rules of `access` let some person use that method.',
  ),
  configPath: optionalSetting(absolutePath, '`/var/lib/authproxy/INSTANCE.json`')
    .needsRestart('configPath', 'saml.metadataCacheFile', 'saml.usedIdsPath')
    .says(
      'The dynamic configuration: the keys of sessions and of SAML, written by the service itself. The directory must exist and be writable. Two instances cannot share a file: the second does not start. The socket `INSTANCE.json.lock.N` is the lock.',
      'Deleting the file ends every session and login at once, and the identity provider then needs the new certificate; `sudo -u authproxy authproxy rotate-keys INSTANCE` makes new keys and keeps all sessions valid.',
    ),

  proxy: group('Addresses: where authproxy listens, and where it forwards to.', {
    listenAddress: requiredSetting(
      listenAddress,
      'name an address with a port, such as 127.0.0.1:8080',
      'proxy:\n  listenAddress: 127.0.0.1:8080\n  targetURL: http://127.0.0.1:3000',
    )
      .needsRestart('listen')
      .says(
        'The address to listen on, another one for every instance. A port alone (`8080`) means all addresses of the machine: then only a packet filter keeps clients from going past the edge.',
      ),
    targetURL: requiredSetting(origin, 'name the backend, such as http://127.0.0.1:3000').says(
      'The backend, as an origin: scheme, host and port. It must not lead back to this service. The backend must be reachable only through this service, because it believes the identity headers.',
    ),
    targetDisableSSLVerify: setting(boolean, false)
      .noEffectWithout('proxy.targetURL', { scheme: 'https' }, WITHOUT_TLS)
      .says(
        'Whether any certificate of the backend is accepted. Leave it off; see `targetCertificates`.',
      ),
    targetCertificates: optionalSetting(
      absolutePath,
      'the authorities that Node.js trusts, those of `NODE_EXTRA_CA_CERTS` included',
    ).says(
      'PEM file with CAs that the backend’s certificate may come from, in addition to those of Node.js.',
    ),
    targetServerName: optionalSetting(serverName, 'the host of `targetURL`')
      .noEffectWithout('proxy.targetURL', { scheme: 'https' }, WITHOUT_TLS)
      .says(
        'The name for TLS (SNI and the backend’s certificate) if it differs from the host of `targetURL`: for a backend that is reached by its address, or one of several behind one.',
      ),
    targetClientCertificate: optionalSetting(absolutePath, 'none')
      .needs('proxy.targetClientKey')
      .noEffectWithout('proxy.targetURL', { scheme: 'https' }, WITHOUT_TLS)
      .says(
        'PEM file with the certificate for a backend that asks for one (mutual TLS), and those between it and its CA. It is read again when it changes, with its key; new connections then show the new one.',
      ),
    targetClientKey: optionalSetting(secretPlace, 'none')
      .needs('proxy.targetClientCertificate')
      .says(
        'PEM file with the key of `targetClientCertificate`, without a passphrase: a path, or `credential:NAME` for a credential of systemd (`LoadCredential=`).',
      ),
    useBasicAuth: setting(boolean, false).says(
      'Whether the backend gets the subject as the user of Basic credentials, with an empty password. A client’s own Basic credentials are removed then.',
    ),
    trustedProxies: setting(
      listOf(network, 'networks'),
      [],
      'proxy:\n  trustedProxies: [192.0.2.7]',
    ).says(
      'Peers whose X-Forwarded-For is believed: the edge in front. Name exact addresses or narrow networks. The first forwarded address is the client’s.',
    ),
    proxyProtocol: setting(boolean, false)
      .needs(
        'proxy.trustedProxies',
        'name the load balancer there: only its connections may begin with it',
      )
      .says(
        'Whether connections of `trustedProxies` begin with the PROXY protocol, version 2, by which a load balancer for TCP names its client. Every connection of these peers then has to; others may not. `X-Forwarded-For` is believed when the client named so is itself one of `trustedProxies`. Leave it off for an edge that speaks HTTP and sends `X-Forwarded-For`.',
      ),
    webSocketOrigins: setting(listOf(webOrigin, 'web origins'), []).says(
      'Other origins whose pages may open WebSockets with the session of a user.',
    ),
  }),

  backendCredential: group(
    'A secret header by which the application knows that a request has come through authproxy.',
    {
      field: optionalSetting(
        fieldName,
        'none: no credential is sent',
        'backendCredential:\n  field: X-Gateway-Key\n  valueFile: /etc/authproxy/secrets/gateway-key',
      )
        .needs('backendCredential.valueFile')
        .says(
          'Name of a header that every request to the application has, those without a login included, so that the application can refuse what did not come through authproxy. It is removed from what clients send, in every spelling, and never logged.',
          'With `forwardAuth` every answer that lets a request pass has it; the edge has to copy it into the request (`docs/forward-auth.md`).',
        ),
      valueFile: optionalSetting(secretPlace, 'none')
        .needs('backendCredential.field')
        .says(
          'File with the value: at least 16 characters of visible ASCII without spaces, such as those of `openssl rand -hex 32`. A path, or `credential:NAME` for a credential of systemd (`LoadCredential=`). A line break at its end is ignored.',
          'It is read again when it changes. A value that cannot be used changes nothing; the log says so. At the start and at a reload it is an error.',
        ),
    },
  ),

  forwardAuth,

  session: group('Sessions, which live in a cookie of the browser.', {
    lifetime: setting(duration('1m', '30d'), '12h').says(
      'Longest time a session lasts, even when it is used. It ends earlier when the identity provider says so. WebSockets, event streams and long downloads end with it.',
    ),
    idle: setting(duration('1m', '30d'), '4h').says(
      'Idle timeout of a session: it ends when it is not used for so long, or up to a tenth of that (30 seconds if that is more) earlier, because the cookie is not renewed more often. Every request counts as use when it arrives, except those whose answer shared caches may keep (`public`, `s-maxage`, `immutable`), and WebSockets. Transfers under way are not cut for this.',
    ),
    browser: setting(oneOf('optional', 'required'), 'optional').says(
      'Who must send the cookie `__Host-authproxy_browser` beside the session. A browser always must, so that a neighbour under the parent domain cannot set its session there. `optional` lets programs, such as scripts and health checks, send only `__authproxy_session`; with `required` they must send both.',
    ),
    cookieSize: setting(size('4K', '16K'), '8K').says(
      'The size of a session in the browser. What does not fit one cookie is spread over several; what exceeds this is refused with a page that names the largest attributes. Edges and backends have limits of their own, often 8K for all cookies.',
    ),
    revocation: setting(boolean, true)
      .needsRestart()
      .says(
        'List of ended sessions, kept beside the dynamic configuration, so that a copied cookie is invalid after the logout. When the list is damaged, all sessions end and all users have to log in again; the log says so. `authproxy sessions end --user NAME` enters all sessions of a user.',
      ),
  }),

  identity: group('Use of the attributes of an assertion.', {
    attributes: listOfGroups(
      'list of attributes',
      {
        name: setting(attributeName, 'attribute').says(
          'Name of the attribute here; its header is `X-Authproxy-` and this name.',
        ),
        from: setting(listOf(text, 'attribute names'), []).says(
          'Names of the attribute in assertions. The first one with a value is used.',
        ),
        list: setting(boolean, false).says('Whether it is a list whose commas have to be encoded.'),
      },
      'identity:\n  attributes:\n    - name: costCentre\n      from: [urn:example:cost-centre]',
    ).says(
      'Additional attributes, or more names for the known ones.',
      'A change of `attributes`, `only`, `looseNames`, `groups`, `groupForm`, `stripDomains` or the path under `rename` ends the sessions that were made before it, so that their users log in again.',
    ),
    only: optionalSetting(listOf(attributeName, 'attribute names'), 'all known attributes').says(
      'The attributes that are kept. Fewer make smaller cookies.',
    ),
    looseNames: setting(boolean, false).says(
      'Comparison of the last segment of attribute names as well, without regard to case and to white space around it: for names typed by hand at the identity provider.',
    ),
    groups: setting(
      listOf(text, 'patterns'),
      [],
      'identity:\n  groups: ["app-*", "cn=staff,*"]',
    ).says(
      'Groups that are kept; `*` stands for any text. As in the rules of `access`, case matters. All are kept when the list is empty.',
    ),
    groupForm: setting(oneOf('whole', 'name'), 'whole').says(
      'Form of the groups that are kept. `name` keeps only the common name: `cn=staff,ou=groups` becomes `staff`.',
    ),
    stripDomains: setting(
      listOf(text, 'domain names'),
      [],
      'identity:\n  stripDomains: [CORP]',
    ).says(
      'Domains that are taken from account names of the form `DOMAIN\\user`, without regard to case. A name of any other domain stays as it was sent, so that the `admin` of one domain is not the `admin` of another.',
    ),
    names: setting(
      chosenNames,
      'authproxy',
      'identity:\n  names:\n    - webauth\n    - field: X-Team\n      from: [department, organisation]\n    - { field: X-Roles, from: roles, form: list, separator: "|" }',
    ).says(
      'Names of the headers from which the application reads who is asking. `authproxy`: `X-Authproxy-User` and others. `remote`: `Remote-User`, `Remote-Groups`, `Remote-Name`, `Remote-Email`. `auth-request`: `X-Auth-Request-User`, `-Email`, `-Groups`, `-Preferred-Username`, as oauth2-proxy names them. `webauth`: `X-WEBAUTH-USER`, `-NAME`, `-EMAIL`, `-GROUPS`, as Grafana and Gitea know them. For several, or your own headers, write a list; then `authproxy` is sent only if the list has it.',
      'Your own header has a name (`field`) and what it carries (`from`): `user`, which is what `X-Authproxy-User` carries, or names of attributes; the first that has a value counts. `form` is `list` (values with `separator` between them, one of `, ; | :` and the space), `json` (a list in JSON, in ASCII), or `first` (only the first value). Lists such as `groups` are a `list` by default, all else is `first`.',
      'Headers of all these names, and your own, are removed from what clients send, in every spelling. Names of HTTP and of proxies are refused. In the groups of `webauth` spaces are percent-encoded as well, because Grafana splits there.',
    ),
    rename: optionalSetting(
      absolutePath,
      'none',
      'identity:\n  rename: /etc/authproxy/groups.txt',
    ).says(
      'File that gives names to groups, for identity providers that send an ID or a distinguished name. Each line has what is sent, a tab or ` => `, and the name. Case is ignored in what is sent. Rules of `access`, `identity.groups` and the application see the names. A group that is not in the file stays as it was sent, but is left out if it is called like a name in the file.',
      'The file is read again within a second when it changes, and is used for logins from then on; sessions keep the names of their login. A file with a mistake changes nothing; the log and `authproxy status` name the line. At the start a mistake is an error.',
    ),
    encoding: setting(oneOf('utf8', 'percent'), 'utf8').says(
      'Encoding of values for the backend: UTF-8, in which only control characters (line breaks and NUL among them) and the commas within the members of lists are percent-encoded; or `percent`, which encodes everything but visible ASCII and spaces, and `%` itself.',
    ),
    fieldSize: setting(size('256', '512K'), '64K').says(
      'Longest value of one header. A longer one is not sent at all; its name is in `X-Authproxy-Omitted`.',
      'The default lets 300 groups named by whole distinguished names pass (some 36K). Many backends take less and answer 431 or 400: Node 16K in all, Tomcat, Jetty, Apache and nginx 8K a header. Raise their limit, keep fewer groups (`identity.groups`), shorten them (`identity.groupForm`), or lower this, and the header is left out.',
    ),
    ...identityToken,
  }),

  login: group('How a login begins in a browser.', {
    status: setting(loginStatus, 401).says(
      'Status of the page that begins a login. With 401 no service worker or cache takes it for a page of the application. Set 302 if the edge replaces error pages with its own and cannot be changed (`docs/authproxy.md`): the person is then redirected to `/__authproxy-redirect`, which answers 200.',
      'The price: a service worker that stores every navigation may store the page that begins a login, and the edge still replaces all other error pages.',
    ),
  }),

  saml: group('How logins are requested and checked.', {
    nameIDFormat: optionalSetting(
      text,
      '`urn:oasis:names:tc:SAML:2.0:nameid-format:transient`',
    ).says('The format of NameID that is asked for; with `none` the identity provider chooses.'),
    idpInitiated: setting(boolean, false).says(
      'Whether logins begun at the identity provider are accepted. A user with an account there can have others signed in under it, so leave it off where it is not needed.',
      'Their RelayState may be a path or an address of this host, where the user arrives then: also in upper case, with `http:`, with spaces or letters beyond ASCII, or percent-encoded as a whole. Anything else leads to `/`, and the log says so.',
    ),
    forceAuthn: setting(boolean, false).says(
      'Whether the identity provider must have the user log in again each time.',
    ),
    authnContext: setting(listOf(text, 'URIs'), []).says(
      'Authentication contexts that are asked for. Usually none is needed.',
    ),
    authnContextComparison: setting(oneOf('exact', 'minimum', 'maximum', 'better'), 'exact').says(
      'Comparison of `authnContext` with the context the identity provider used.',
    ),
    clockSkew: setting(duration('0s', '10m'), '90s').says(
      'Largest difference between the clocks of this server and of the identity provider.',
    ),
    assertionAge: setting(duration('10s', '1h'), '5m').says('Largest age of an assertion.'),
    loginTime: setting(duration('1m', '1h'), '10m').says(
      'Time limit for a login, from the redirect to the identity provider to the return.',
    ),
    responseSize: setting(size('256K', '4M'), '1M').says(
      'Largest answer of the identity provider to a login, as XML. Its elements are limited with it, to one for each 128 bytes. The default lets the 1,015 groups pass that Active Directory allows a person, with names of 300 bytes, encrypted too. Clients may send such messages before they have logged in, so raise it only for an identity provider that needs it.',
    ),
    allowSHA1: setting(boolean, false).says(
      'Whether signatures over SHA-1 are accepted. They can be forged with enough money.',
    ),
    allowUnsignedLogout: setting(boolean, false).says(
      'Whether a logout request without a signature ends sessions. Any host on the network can send one.',
    ),
    metadataValidity: optionalSetting(duration('1d', '365d'), 'none: valid for ever').says(
      'For how long our own metadata is valid from the moment it is fetched: its `validUntil`. Set it only when the identity provider fetches the metadata by itself: one that was given the document by hand may refuse every login after that moment.',
    ),
    metadataCacheDuration: optionalSetting(
      duration('10m', '30d'),
      'none: the identity provider decides',
    ).says(
      'How long the identity provider may use our metadata before it fetches it again: the `cacheDuration`. Set it to less than half of `keys.overlap`, or the identity provider may not know a new key when signing switches to it.',
    ),
    signMetadata: setting(boolean, false).says(
      'Whether our own metadata is signed, with the key that signs requests. The identity provider has to know its certificate already for that to mean anything, and has to be given the new one after `authproxy rotate-keys`.',
    ),
    replaySize: setting(size('0', '8M'), '1M').says(
      'Largest form, files included, that is kept over a login. When a form comes without a session, the service keeps it in memory, encrypted with a key that only the browser has, and sends it once, unchanged, after the login. Where the browser has been signed in before, only the same user can send it. 0 keeps none.',
      'Other requests with content (a larger form, JSON) get a 401 that says that the request was not kept. Some 32 MiB are kept for all users together, four forms for each user; a restart loses them.',
    ),
  }),
  pages,
  state: group(
    'A store that several instances of one name share (Valkey or Redis, from 7.0): ends of sessions, IDs that were used up, kept forms, counts of attempts, records of failures. One instance needs none. See `docs/several-instances.md`.',
    {
      url: optionalSetting(
        storeUrl,
        'none: the instance shares nothing',
        'state:\n  url: rediss://valkey.example.org:6379/0',
      )
        .needsRestart('state')
        .says(
          'The store: `redis://HOST:PORT/NUMBER`, or `rediss://` with TLS. All keys begin with `{authproxy:INSTANCE}:`, so instances that share them must have the same name. With `sentinels` the host is the name by which these know the store. No request waits longer than 50 ms for the store, and no session ends because it is away.',
        ),
      user: optionalSetting(text, 'none: the default user')
        .needsRestart('state')
        .noEffectWithout('state.url')
        .needs('state.passwordFile')
        .says('User of the store (ACL).'),
      passwordFile: optionalSetting(secretPlace, 'none')
        .needsRestart('state')
        .noEffectWithout('state.url')
        .says(
          'File with the password: a path, or `credential:NAME` for a credential of systemd (`LoadCredential=`). It is read at start.',
        ),
      certificates: optionalSetting(absolutePath, 'the authorities that Node.js trusts')
        .needsRestart('state')
        .noEffectWithout('state.url')
        .noEffectWithout('state.url', { tls: true }, 'the store is reached without TLS (redis://)')
        .says(
          'PEM file with the CAs that may have issued the certificate of the store, with `rediss://`.',
        ),
      sentinels: setting(listOf(sentinel, 'sentinels'), [])
        .needsRestart('state')
        .noEffectWithout('state.url')
        .says(
          'Sentinels that name the node that takes writes, as `HOST:PORT`. They are asked with TLS when the URL is of `rediss`.',
        ),
      sentinelPasswordFile: optionalSetting(secretPlace, 'none')
        .needsRestart('state')
        .noEffectWithout('state.url')
        .says('File with the password of the sentinels.'),
      onOutage: setting(oneOf('continue', 'refuse'), 'continue').says(
        'What happens to logins while the store is away. `continue` accepts the answer to a login that was begun here, checked against the IDs this instance has seen; a login begun at the identity provider is refused with a page that asks to try again. `refuse` refuses both. Sessions go on in any case.',
      ),
    },
  ),
  keys: group('Rotation of keys by `authproxy rotate-keys`.', {
    overlap: setting(duration('1h', '365d'), '30d').says(
      'Time for which an old SAML key still decrypts. Within this time the identity provider has to use the new certificate. The new key signs after half of it (`rotate-keys --now`: at once).',
    ),
    shared: setting(boolean, false)
      .needsRestart('sharedKeys')
      .says(
        'Whether the keys come from a file that the operator distributes. The file is then read alone: this instance makes no keys, rotates none and never writes the file. A new file is in use within a second; one that is missing or damaged leaves the keys in use, and without one the instance does not start. Keys are made and rotated by the one instance that has this off.',
      ),
    file: optionalSetting(secretPlace, 'the file of `configPath`')
      .needsRestart('sharedKeys')
      .needs('keys.shared')
      .says(
        'File with the keys, with `shared`: a path, or `credential:NAME` for a credential of systemd (`LoadCredential=`).',
      ),
  }),

  timeouts: group('Time limits.', {
    connect: setting(duration('100ms', '5m'), '10s').says(
      'Time limit for a connection to the backend, for each of name look-up, TCP and TLS.',
    ),
    response: setting(duration('1s', '1d'), '5m').says(
      'Time limit for the backend to answer a request that has been sent completely.',
    ),
    content: setting(duration('0s', '1d'), '0s').says(
      'Idle timeout within a response of the backend. 0 is no limit, which event streams need.',
    ),
    tunnel: setting(duration('0s', '7d'), '0s').says(
      'Idle timeout of a WebSocket. 0 is no limit; TCP keep-alive detects dead peers.',
    ),
    clientHead: setting(duration('1s', '5m'), '30s')
      .needsRestart()
      .says('Time limit for a client to send the head of a request.'),
    clientContent: setting(duration('1s', '1h'), '1m').says(
      'Idle timeout of a client within the content of a request.',
    ),
    clientTaking: setting(duration('1s', '1h'), '2m')
      .needsRestart()
      .says(
        'Time limit for a client that reads nothing of a response. A client that reads at least 1 KiB a second is not cut. A client that has read 16 KiB a second or more before may pause for six times as long: programs that limit their rate read some megabytes at once, and then nothing for minutes.',
      ),
    clientIdle: setting(duration('1s', '1h'), '75s')
      .needsRestart()
      .says('Idle timeout of a connection of a client or the edge between requests.'),
    drain: setting(duration('0s', '10m'), '30s')
      .needsRestart()
      .says(
        'Time limit for running requests when the service stops. Until those under way have ended, it goes on serving new ones as well; in the last 5 seconds of the limit (in the second half of one below 10 s) it takes no new ones. WebSockets and event streams end then and are not waited for.',
      ),
  }),
  limits: group('Limits on sizes and numbers.', {
    head: setting(size('8K', '4M'), '1M')
      .needsRestart()
      .says(
        'Maximum bytes of the head of a request; more is 431. In it, the target has 64 KiB at most (414), and Connection and similar headers together 8 KiB (431).',
      ),
    fields: setting(integer(20, 2000, 'a number of fields'), 900)
      .needsRestart()
      .says(
        'Maximum number of header lines of a request; more is 431. Node servers ignore lines after the thousandth without an error.',
      ),
    responseHead: setting(size('8K', '4M'), '256K').says(
      'Maximum bytes of the head of a backend’s response.',
    ),
    connections: setting(integer(10, 1_000_000, 'a number of connections'), 10_000)
      .needsRestart()
      .says('Maximum number of connections of clients.'),
    backendConnections: setting(integer(1, 100_000, 'a number of connections'), 512).says(
      'Maximum number of connections to the backend for requests with a session or a passthrough token, not counting WebSockets. Further requests wait. Requests that last longer than a second may have as many again. Requests on passthrough paths have connections of their own, half as many of each kind.',
    ),
  }),
  admin: group('Health, readiness and figures, on a listener of their own.', {
    listenAddress: optionalSetting(
      listenAddress,
      'none: there is no such listener',
      'admin:\n  listenAddress: 127.0.0.1:9080',
    )
      .needsRestart('admin')
      .says(
        'Address where `/healthz`, `/readyz` and `/metrics` are answered, to every client that can connect. Every other path of the public listener belongs to the backend.',
      ),
  }),

  log: group('Lines of the log.', {
    level: setting(oneOf('debug', 'info', 'warn', 'error'), 'info').says(
      'The least severe lines that are written.',
    ),
    access: setting(boolean, true).says('Whether every request is written.'),
    groups: setting(boolean, false).says(
      'Whether the line `signed in` of a login has the groups of the person, and the other attributes that rules of `access` name. `authproxy access --log FILE` needs them to judge the requests of people by other rules.',
    ),
  }),
})

/** The values of a file or of the environment after checking, with the defaults filled in. */
export type SettingValues = ValuesOf<typeof settings>
