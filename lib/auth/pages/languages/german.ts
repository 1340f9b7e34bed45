/**
 * The sentences of the pages in German. Its keys are the English sentences, and the list that every other language has to cover.
 */
export const german = {
  // Words of every page.
  'If you ask for help, give this reference:':
    'Wenn Sie um Hilfe bitten, nennen Sie diese Kennung:',
  'You can ask here for help:': 'Hilfe bekommen Sie hier:',
  'For the administrator': 'Für die Administration',

  // Around a login.
  'Signing in': 'Anmeldung',
  'Signed in': 'Angemeldet',
  Continue: 'Weiter',
  'Continue to sign in': 'Weiter zur Anmeldung',
  'Sending your form': 'Ihr Formular wird gesendet',
  'Send the form you filled in': 'Das ausgefüllte Formular senden',
  'Signing out': 'Abmeldung',
  'Continue to sign out': 'Weiter zur Abmeldung',
  'Sign out?': 'Abmelden?',
  'A link or another site asked to sign you out. Do you want to sign out?':
    'Ein Link oder eine andere Website möchte Sie abmelden. Möchten Sie sich abmelden?',
  'Sign out': 'Abmelden',
  'Stay signed in': 'Angemeldet bleiben',
  'You are signed out': 'Sie sind abgemeldet',
  'Your session here and at the identity provider has ended.':
    'Ihre Sitzung hier und beim Identitätsanbieter ist beendet.',
  'Your session here has ended. The identity provider did not confirm that all others have.':
    'Ihre Sitzung hier ist beendet. Der Identitätsanbieter hat nicht bestätigt, dass auch alle anderen beendet sind.',
  'Your session here has ended. Your session at the identity provider stays active, and may sign you in again without asking.':
    'Ihre Sitzung hier ist beendet. Ihre Sitzung beim Identitätsanbieter bleibt bestehen und kann Sie ohne Rückfrage wieder anmelden.',
  'To be safe on a shared computer, close the browser.':
    'Schließen Sie an einem gemeinsam genutzten Computer zur Sicherheit den Browser.',
  'There is no session here.': 'Hier besteht keine Sitzung.',

  // Requests on their way to the application.
  'Loop detected': 'Schleife erkannt',
  'This request came back to where it had been forwarded from.':
    'Diese Anfrage kam dorthin zurück, von wo sie weitergeleitet worden war.',
  'The application cannot be reached': 'Die Anwendung ist nicht erreichbar',
  'Your request reached this service, but the application behind it did not answer.':
    'Ihre Anfrage hat diesen Dienst erreicht, aber die Anwendung dahinter hat nicht geantwortet.',
  'Please try again in a moment.': 'Bitte versuchen Sie es gleich noch einmal.',
  'Tell your administrator the reference below.':
    'Nennen Sie Ihrer Administration die Kennung unten.',
  'If it happens again, tell your administrator the reference below.':
    'Wenn es wieder geschieht, nennen Sie Ihrer Administration die Kennung unten.',
  'The upload stopped': 'Das Hochladen wurde abgebrochen',
  'The content of the request did not arrive in time.':
    'Der Inhalt der Anfrage ist nicht rechtzeitig angekommen.',
  'Please send it again, over a better connection if you have one.':
    'Bitte senden Sie ihn noch einmal, wenn möglich über eine bessere Verbindung.',
  'The upload cannot be read': 'Das Hochgeladene ist nicht lesbar',
  'The content of the request is malformed.': 'Der Inhalt der Anfrage ist fehlerhaft.',
  'Please send it again.': 'Bitte senden Sie ihn noch einmal.',
  'This request cannot be forwarded': 'Diese Anfrage kann nicht weitergeleitet werden',
  'A header of the request has characters that are not allowed in headers.':
    'Ein Header der Anfrage enthält Zeichen, die dort nicht erlaubt sind.',
  'Delete the cookies of this site in your browser and try again.':
    'Löschen Sie in Ihrem Browser die Cookies dieser Website und versuchen Sie es noch einmal.',
  'Not an address of this service': 'Keine Adresse dieses Dienstes',
  'The request names another server, or no path at all.':
    'Die Anfrage nennt einen anderen Server oder gar keinen Pfad.',
  'Open the address of the application in your browser.':
    'Öffnen Sie die Adresse der Anwendung in Ihrem Browser.',
  'This is not the address of the service': 'Dies ist nicht die Adresse des Dienstes',
  'You cannot sign in under this host name: the cookies of the login would belong to another one.':
    'Unter diesem Hostnamen können Sie sich nicht anmelden: Die Cookies der Anmeldung würden zu einem anderen gehören.',
  'Use the address below.': 'Verwenden Sie die Adresse unten.',
  'Go to {domain}': 'Zu {domain}',
  'This page needs a secure connection': 'Diese Seite braucht eine sichere Verbindung',
  'Your browser came here by http, without TLS. The cookies of a login are sent over https only, so you cannot sign in this way.':
    'Ihr Browser kam über http, ohne TLS. Die Cookies einer Anmeldung werden nur über https gesendet, deshalb können Sie sich so nicht anmelden.',
  'Open the address below, which begins with https.':
    'Öffnen Sie die Adresse unten, die mit https beginnt.',
  'Go to {base}': 'Zu {base}',
  'Not from this page': 'Nicht von dieser Seite aus',
  'Pages of other sites may not open connections here.':
    'Seiten anderer Websites dürfen hier keine Verbindungen öffnen.',
  'What you sent was not kept': 'Was Sie gesendet haben, wurde nicht aufbewahrt',
  'There is no valid session, and the request could not be kept until you have signed in: {because}. The application has not received it.':
    'Es besteht keine gültige Sitzung, und die Anfrage konnte nicht bis zu Ihrer Anmeldung aufbewahrt werden: {because}. Die Anwendung hat sie nicht erhalten.',
  'To keep what you filled in: sign in in another tab, then go back here and send it again.':
    'So bleibt erhalten, was Sie ausgefüllt haben: Melden Sie sich in einem anderen Tab an, kehren Sie hierher zurück und senden Sie es noch einmal.',
  'Sign in': 'Anmelden',
  'this service keeps none': 'dieser Dienst bewahrt keine auf',
  'it is not a form': 'sie ist kein Formular',
  'it comes from a page of another site': 'sie kommt von einer Seite einer anderen Website',
  'its address is none to come back to': 'zu ihrer Adresse kann man nicht zurückkehren',
  'it is too large': 'sie ist zu groß',
  'it did not arrive in time': 'sie ist nicht rechtzeitig angekommen',
  'too many others are being kept at the moment': 'im Augenblick werden zu viele andere aufbewahrt',
  'it was sent already': 'sie wurde schon gesendet',
  'Something went wrong here': 'Hier ist etwas schiefgegangen',
  'The service made a mistake.': 'Der Dienst hat einen Fehler gemacht.',

  // Logins and logouts that failed.
  'Signing in did not work': 'Die Anmeldung hat nicht geklappt',
  'The answer of the identity provider could not be accepted.':
    'Die Antwort des Identitätsanbieters konnte nicht angenommen werden.',
  'Sign in again.': 'Melden Sie sich noch einmal an.',
  'Sign in again': 'Noch einmal anmelden',
  'The identity provider says more about you than this service takes. Most likely you are in very many groups.':
    'Der Identitätsanbieter sagt über Sie mehr, als dieser Dienst annimmt. Wahrscheinlich sind Sie in sehr vielen Gruppen.',
  'This answer belongs to no sign-in that is under way in this browser. It may have taken too long, or the page was loaded twice.':
    'Diese Antwort gehört zu keiner Anmeldung, die in diesem Browser läuft. Vielleicht hat sie zu lange gedauert, oder die Seite wurde zweimal geladen.',
  'Too many people are signing in at this moment.':
    'Im Augenblick melden sich zu viele Menschen an.',
  'Wait a moment, then sign in again.':
    'Warten Sie einen Moment und melden Sie sich dann noch einmal an.',
  'Signing out was not completed': 'Die Abmeldung wurde nicht abgeschlossen',
  'A message about signing out came from the identity provider and could not be accepted. It has signed out no user.':
    'Vom Identitätsanbieter kam eine Nachricht zur Abmeldung, die nicht angenommen werden konnte. Sie hat niemanden abgemeldet.',
  'Sign out in the application, then close the browser.':
    'Melden Sie sich in der Anwendung ab und schließen Sie dann den Browser.',
  'Go to the application': 'Zur Anwendung',
  'You are signed in, but the session did not stay':
    'Sie sind angemeldet, aber die Sitzung blieb nicht bestehen',
  'You have been signed in several times, but each time the next request came without a valid session.':
    'Sie wurden mehrmals angemeldet, aber jedes Mal kam die nächste Anfrage ohne gültige Sitzung.',
  'The identity provider has signed you in, but no valid session came back with the next request.':
    'Der Identitätsanbieter hat Sie angemeldet, aber mit der nächsten Anfrage kam keine gültige Sitzung zurück.',
  'Try again': 'Noch einmal versuchen',
  'No usable subject identifier': 'Keine brauchbare Kennung der Person',
  'Your form was not sent': 'Ihr Formular wurde nicht gesendet',
  'Please fill it in again if you still want to send it.':
    'Bitte füllen Sie es noch einmal aus, wenn Sie es noch senden möchten.',
  'Nothing to see here': 'Hier gibt es nichts zu sehen',
  'The identity provider delivers its answers to this address; it is no page to visit.':
    'An diese Adresse liefert der Identitätsanbieter seine Antworten; sie ist keine Seite zum Besuchen.',
  'Go to the application. If you are not signed in any more, it will ask you to.':
    'Gehen Sie zur Anwendung. Wenn Sie nicht mehr angemeldet sind, fordert sie Sie dazu auf.',
  'Signing in is not possible right now': 'Die Anmeldung ist gerade nicht möglich',
  'What is known of the identity provider is out of date.':
    'Was über den Identitätsanbieter bekannt ist, ist veraltet.',
  'Try again in a few minutes.': 'Versuchen Sie es in einigen Minuten noch einmal.',
  'The clocks of this server and of the identity provider differ by about {seconds} seconds.':
    'Die Uhren dieses Servers und des Identitätsanbieters gehen um etwa {seconds} Sekunden auseinander.',
  'The clocks of this server and of the identity provider differ by about {seconds} seconds, or its answer was that long on its way.':
    'Die Uhren dieses Servers und des Identitätsanbieters gehen um etwa {seconds} Sekunden auseinander, oder seine Antwort war so lange unterwegs.',
  'The browser did not send back the cookie that was set when signing in began: it refuses cookies, it took too long, or signing in began somewhere else.':
    'Der Browser hat das Cookie nicht zurückgesendet, das zu Beginn der Anmeldung gesetzt wurde: Er lehnt Cookies ab, es hat zu lange gedauert, oder die Anmeldung begann anderswo.',
  'Allow cookies for this site, and sign in within the time the identity provider gives you.':
    'Erlauben Sie Cookies für diese Website und melden Sie sich innerhalb der Zeit an, die der Identitätsanbieter Ihnen gibt.',
  'Begin at the address below, with https: a cookie that was set without TLS, or under another name, does not come back.':
    'Beginnen Sie bei der Adresse unten, mit https: Ein Cookie, das ohne TLS oder unter einem anderen Namen gesetzt wurde, kommt nicht zurück.',
  'Do not begin at the identity provider, nor at a bookmark of its page.':
    'Beginnen Sie nicht beim Identitätsanbieter und nicht bei einem Lesezeichen seiner Seite.',
  'The identity provider did not sign you in.': 'Der Identitätsanbieter hat Sie nicht angemeldet.',
  'If it happens again, you may lack access to this application: ask your administrator.':
    'Wenn es wieder geschieht, fehlt Ihnen vielleicht der Zugang zu dieser Anwendung: Fragen Sie Ihre Administration.',
  'This application asks for another way of signing in than the one the identity provider used.':
    'Diese Anwendung verlangt eine andere Art der Anmeldung als die, die der Identitätsanbieter verwendet hat.',
  'Sign in again, and choose another way if you are offered one.':
    'Melden Sie sich noch einmal an und wählen Sie eine andere Art, wenn Ihnen eine angeboten wird.',
  'This address takes the answers of the identity provider and nothing else.':
    'Diese Adresse nimmt die Antworten des Identitätsanbieters an und sonst nichts.',
  'Open the application and sign in from there.':
    'Öffnen Sie die Anwendung und melden Sie sich von dort aus an.',
  'The answer of the identity provider did not arrive in time.':
    'Die Antwort des Identitätsanbieters ist nicht rechtzeitig angekommen.',
  'What came to this address is no answer of an identity provider.':
    'Was an diese Adresse kam, ist keine Antwort eines Identitätsanbieters.',
  '{said} This server is reached under another host name than it is configured for, so the cookie belongs to that name.':
    '{said} Dieser Server wird unter einem anderen Hostnamen erreicht, als für ihn eingestellt ist, deshalb gehört das Cookie zu jenem Namen.',
  'Open the address below instead.': 'Öffnen Sie stattdessen die Adresse unten.',
  '{said} The edge in front of this service says that the request came without TLS, and browsers do not send session cookies over such connections.':
    '{said} Der Server vor diesem Dienst sagt, dass die Anfrage ohne TLS kam, und Browser senden Sitzungs-Cookies nicht über solche Verbindungen.',
  'Open the address below instead, with https.':
    'Öffnen Sie stattdessen die Adresse unten, mit https.',
  '{said} The browser sent a session cookie, but not one that is valid here.':
    '{said} Der Browser hat ein Sitzungs-Cookie gesendet, aber keines, das hier gültig ist.',
  'Delete the cookies of this site and try again.':
    'Löschen Sie die Cookies dieser Website und versuchen Sie es noch einmal.',
  '{said} The clocks of this server and of the identity provider differ by about {seconds} seconds.':
    '{said} Die Uhren dieses Servers und des Identitätsanbieters gehen um etwa {seconds} Sekunden auseinander.',
  '{said} The browser did not send the session cookie back: it refuses cookies of this site, or the cookie was too large for it or for a proxy on the way.':
    '{said} Der Browser hat das Sitzungs-Cookie nicht zurückgesendet: Er lehnt Cookies dieser Website ab, oder das Cookie war ihm oder einem Proxy unterwegs zu groß.',
  'Allow cookies for this site, and leave private mode or switch off extensions that block them.':
    'Erlauben Sie Cookies für diese Website und verlassen Sie den privaten Modus oder schalten Sie Erweiterungen aus, die sie blockieren.',
  'The SAML session has no usable subject identifier.':
    'Die SAML-Sitzung hat keine brauchbare Kennung der Person.',
  'The SAML session has no usable subject identifier. The one it has contains control characters or white space other than spaces.':
    'Die SAML-Sitzung hat keine brauchbare Kennung der Person. Ihre Kennung enthält Steuerzeichen oder anderen Leerraum als Leerzeichen.',
  'This user name cannot be used here': 'Dieser Benutzername ist hier nicht verwendbar',
  'The application expects user names without a colon, and yours has one.':
    'Die Anwendung erwartet Benutzernamen ohne Doppelpunkt, und Ihrer hat einen.',
  'The session is over already': 'Die Sitzung ist schon beendet',
  'The identity provider says that your session there has ended already.':
    'Der Identitätsanbieter sagt, dass Ihre Sitzung dort schon beendet ist.',
  'Your session is too large for the browser': 'Ihre Sitzung ist für den Browser zu groß',
  'You have signed in, but what the identity provider says about you does not fit the cookies a browser keeps.':
    'Sie haben sich angemeldet, aber was der Identitätsanbieter über Sie sagt, passt nicht in die Cookies, die ein Browser aufbewahrt.',
  'It was sent already, or could not be kept for so long.':
    'Es wurde schon gesendet oder konnte nicht so lange aufbewahrt werden.',
  'You are signed in as another user than when you filled it in.':
    'Sie sind mit einem anderen Namen angemeldet als beim Ausfüllen.',
  'It did not come from a page of this service.': 'Es kam nicht von einer Seite dieses Dienstes.',
} as const

/** A sentence that every language has, in English. */
export type Sentence = keyof typeof german
