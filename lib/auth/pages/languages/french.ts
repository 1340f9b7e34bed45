/**
 * The sentences of the pages in French.
 */
import type { Sentence } from './german.ts'

export const french: Readonly<Record<Sentence, string>> = {
  // Words of every page.
  'If you ask for help, give this reference:':
    'Si vous demandez de l’aide, indiquez cette référence :',
  'You can ask here for help:': 'Vous pouvez demander de l’aide ici :',
  'For the administrator': 'Pour l’administrateur',
  // Around a login.
  'Signing in': 'Connexion',
  'Signed in': 'Connecté',
  Continue: 'Continuer',
  'Continue to sign in': 'Continuer vers la connexion',
  'Sending your form': 'Envoi de votre formulaire',
  'Send the form you filled in': 'Envoyer le formulaire rempli',
  'Signing out': 'Déconnexion',
  'Continue to sign out': 'Continuer vers la déconnexion',
  'Sign out?': 'Se déconnecter ?',
  'A link or another site asked to sign you out. Do you want to sign out?':
    'Un lien ou un autre site a demandé votre déconnexion. Voulez-vous vous déconnecter ?',
  'Sign out': 'Se déconnecter',
  'Stay signed in': 'Rester connecté',
  'You are signed out': 'Vous êtes déconnecté',
  'Your session here and at the identity provider has ended.':
    'Votre session ici et chez le fournisseur d’identité est terminée.',
  'Your session here has ended. The identity provider did not confirm that all others have.':
    'Votre session ici est terminée. Le fournisseur d’identité n’a pas confirmé que toutes les autres le sont.',
  'Your session here has ended. Your session at the identity provider stays active, and may sign you in again without asking.':
    'Votre session ici est terminée. Votre session chez le fournisseur d’identité reste active et peut vous reconnecter sans rien demander.',
  'To be safe on a shared computer, close the browser.':
    'Par sécurité, fermez le navigateur si l’ordinateur est partagé.',
  'There is no session here.': 'Il n’y a pas de session ici.',
  // Requests on their way to the application.
  'Loop detected': 'Boucle détectée',
  'This request came back to where it had been forwarded from.':
    'Cette requête est revenue à l’endroit d’où elle avait été transmise.',
  'The application cannot be reached': 'L’application est injoignable',
  'Your request reached this service, but the application behind it did not answer.':
    'Votre requête est arrivée à ce service, mais l’application derrière lui n’a pas répondu.',
  'Please try again in a moment.': 'Veuillez réessayer dans un instant.',
  'Tell your administrator the reference below.':
    'Indiquez à votre administrateur la référence ci-dessous.',
  'If it happens again, tell your administrator the reference below.':
    'Si cela se reproduit, indiquez à votre administrateur la référence ci-dessous.',
  'The upload stopped': 'L’envoi s’est arrêté',
  'The content of the request did not arrive in time.':
    'Le contenu de la requête n’est pas arrivé à temps.',
  'Please send it again, over a better connection if you have one.':
    'Veuillez l’envoyer de nouveau, si possible avec une meilleure connexion.',
  'The upload cannot be read': 'L’envoi est illisible',
  'The content of the request is malformed.': 'Le contenu de la requête est mal formé.',
  'Please send it again.': 'Veuillez l’envoyer de nouveau.',
  'This request cannot be forwarded': 'Cette requête ne peut pas être transmise',
  'A header of the request has characters that are not allowed in headers.':
    'Un en-tête de la requête contient des caractères qui n’y sont pas autorisés.',
  'Delete the cookies of this site in your browser and try again.':
    'Supprimez les cookies de ce site dans votre navigateur et réessayez.',
  'Not an address of this service': 'Ce n’est pas une adresse de ce service',
  'The request names another server, or no path at all.':
    'La requête désigne un autre serveur, ou aucun chemin.',
  'Open the address of the application in your browser.':
    'Ouvrez l’adresse de l’application dans votre navigateur.',
  'This is not the address of the service': 'Ce n’est pas l’adresse du service',
  'You cannot sign in under this host name: the cookies of the login would belong to another one.':
    'Vous ne pouvez pas vous connecter sous ce nom d’hôte : les cookies de la connexion appartiendraient à un autre.',
  'Use the address below.': 'Utilisez l’adresse ci-dessous.',
  'Go to {domain}': 'Aller à {domain}',
  'This page needs a secure connection': 'Cette page exige une connexion sécurisée',
  'Your browser came here by http, without TLS. The cookies of a login are sent over https only, so you cannot sign in this way.':
    'Votre navigateur est arrivé ici par http, sans TLS. Les cookies d’une connexion ne sont envoyés que par https, vous ne pouvez donc pas vous connecter ainsi.',
  'Open the address below, which begins with https.':
    'Ouvrez l’adresse ci-dessous, qui commence par https.',
  'Go to {base}': 'Aller à {base}',
  'Not from this page': 'Pas depuis cette page',
  'Pages of other sites may not open connections here.':
    'Les pages d’autres sites ne peuvent pas ouvrir de connexions ici.',
  'What you sent was not kept': 'Ce que vous avez envoyé n’a pas été conservé',
  'There is no valid session, and the request could not be kept until you have signed in: {because}. The application has not received it.':
    'Il n’y a pas de session valide, et la requête n’a pas pu être conservée jusqu’à votre connexion : {because}. L’application ne l’a pas reçue.',
  'To keep what you filled in: sign in in another tab, then go back here and send it again.':
    'Pour garder ce que vous avez rempli : connectez-vous dans un autre onglet, revenez ici et envoyez-le de nouveau.',
  'Sign in': 'Se connecter',
  'this service keeps none': 'ce service n’en conserve aucune',
  'it is not a form': 'ce n’est pas un formulaire',
  'it comes from a page of another site': 'elle vient d’une page d’un autre site',
  'its address is none to come back to': 'on ne peut pas revenir à son adresse',
  'it is too large': 'elle est trop grande',
  'it did not arrive in time': 'elle n’est pas arrivée à temps',
  'too many others are being kept at the moment': 'trop d’autres sont conservées en ce moment',
  'it was sent already': 'elle a déjà été envoyée',
  'Something went wrong here': 'Une erreur s’est produite ici',
  'The service made a mistake.': 'Le service a commis une erreur.',
  // Logins and logouts that failed.
  'Signing in did not work': 'La connexion n’a pas fonctionné',
  'The answer of the identity provider could not be accepted.':
    'La réponse du fournisseur d’identité n’a pas pu être acceptée.',
  'Sign in again.': 'Connectez-vous de nouveau.',
  'Sign in again': 'Se connecter de nouveau',
  'The identity provider says more about you than this service takes. Most likely you are in very many groups.':
    'Le fournisseur d’identité en dit plus sur vous que ce service n’en accepte. Vous êtes sans doute membre de très nombreux groupes.',
  'This answer belongs to no sign-in that is under way in this browser. It may have taken too long, or the page was loaded twice.':
    'Cette réponse n’appartient à aucune connexion en cours dans ce navigateur. Elle a peut-être pris trop de temps, ou la page a été chargée deux fois.',
  'Too many people are signing in at this moment.': 'Trop de personnes se connectent en ce moment.',
  'Wait a moment, then sign in again.': 'Attendez un instant, puis connectez-vous de nouveau.',
  'Signing out was not completed': 'La déconnexion n’a pas abouti',
  'A message about signing out came from the identity provider and could not be accepted. It has signed out no user.':
    'Un message de déconnexion est venu du fournisseur d’identité et n’a pas pu être accepté. Il n’a déconnecté personne.',
  'Sign out in the application, then close the browser.':
    'Déconnectez-vous dans l’application, puis fermez le navigateur.',
  'Go to the application': 'Aller à l’application',
  'You are signed in, but the session did not stay':
    'Vous êtes connecté, mais la session n’a pas été gardée',
  'You have been signed in several times, but each time the next request came without a valid session.':
    'Vous avez été connecté plusieurs fois, mais chaque fois la requête suivante est arrivée sans session valide.',
  'The identity provider has signed you in, but no valid session came back with the next request.':
    'Le fournisseur d’identité vous a connecté, mais la requête suivante est arrivée sans session valide.',
  'Try again': 'Réessayer',
  'No usable subject identifier': 'Aucun identifiant utilisable de la personne',
  'Your form was not sent': 'Votre formulaire n’a pas été envoyé',
  'Please fill it in again if you still want to send it.':
    'Veuillez le remplir de nouveau si vous voulez toujours l’envoyer.',
  'Nothing to see here': 'Rien à voir ici',
  'The identity provider delivers its answers to this address; it is no page to visit.':
    'Le fournisseur d’identité livre ses réponses à cette adresse ; ce n’est pas une page à visiter.',
  'Go to the application. If you are not signed in any more, it will ask you to.':
    'Allez à l’application. Si vous n’êtes plus connecté, elle vous le demandera.',
  'Signing in is not possible right now': 'La connexion est impossible pour le moment',
  'What is known of the identity provider is out of date.':
    'Ce que l’on sait du fournisseur d’identité n’est plus à jour.',
  'Try again in a few minutes.': 'Réessayez dans quelques minutes.',
  'The clocks of this server and of the identity provider differ by about {seconds} seconds.':
    'Les horloges de ce serveur et du fournisseur d’identité diffèrent d’environ {seconds} secondes.',
  'The clocks of this server and of the identity provider differ by about {seconds} seconds, or its answer was that long on its way.':
    'Les horloges de ce serveur et du fournisseur d’identité diffèrent d’environ {seconds} secondes, ou sa réponse a mis ce temps à arriver.',
  'The browser did not send back the cookie that was set when signing in began: it refuses cookies, it took too long, or signing in began somewhere else.':
    'Le navigateur n’a pas renvoyé le cookie posé au début de la connexion : il refuse les cookies, cela a pris trop de temps, ou la connexion a commencé ailleurs.',
  'Allow cookies for this site, and sign in within the time the identity provider gives you.':
    'Autorisez les cookies de ce site, et connectez-vous dans le temps que le fournisseur d’identité vous laisse.',
  'Begin at the address below, with https: a cookie that was set without TLS, or under another name, does not come back.':
    'Commencez à l’adresse ci-dessous, avec https : un cookie posé sans TLS, ou sous un autre nom, ne revient pas.',
  'Do not begin at the identity provider, nor at a bookmark of its page.':
    'Ne commencez ni chez le fournisseur d’identité, ni par un signet de sa page.',
  'The identity provider did not sign you in.': 'Le fournisseur d’identité ne vous a pas connecté.',
  'If it happens again, you may lack access to this application: ask your administrator.':
    'Si cela se reproduit, vous n’avez peut-être pas accès à cette application : demandez à votre administrateur.',
  'This application asks for another way of signing in than the one the identity provider used.':
    'Cette application exige une autre façon de se connecter que celle que le fournisseur d’identité a utilisée.',
  'Sign in again, and choose another way if you are offered one.':
    'Connectez-vous de nouveau, et choisissez une autre façon si l’on vous en propose une.',
  'This address takes the answers of the identity provider and nothing else.':
    'Cette adresse reçoit les réponses du fournisseur d’identité et rien d’autre.',
  'Open the application and sign in from there.':
    'Ouvrez l’application et connectez-vous à partir de là.',
  'The answer of the identity provider did not arrive in time.':
    'La réponse du fournisseur d’identité n’est pas arrivée à temps.',
  'What came to this address is no answer of an identity provider.':
    'Ce qui est arrivé à cette adresse n’est pas une réponse d’un fournisseur d’identité.',
  '{said} This server is reached under another host name than it is configured for, so the cookie belongs to that name.':
    '{said} Ce serveur est joint sous un autre nom d’hôte que celui pour lequel il est configuré, le cookie appartient donc à ce nom.',
  'Open the address below instead.': 'Ouvrez plutôt l’adresse ci-dessous.',
  '{said} The edge in front of this service says that the request came without TLS, and browsers do not send session cookies over such connections.':
    '{said} Le serveur placé devant ce service dit que la requête est venue sans TLS, et les navigateurs n’envoient pas de cookies de session par de telles connexions.',
  'Open the address below instead, with https.': 'Ouvrez plutôt l’adresse ci-dessous, avec https.',
  '{said} The browser sent a session cookie, but not one that is valid here.':
    '{said} Le navigateur a envoyé un cookie de session, mais aucun qui soit valide ici.',
  'Delete the cookies of this site and try again.':
    'Supprimez les cookies de ce site et réessayez.',
  '{said} The clocks of this server and of the identity provider differ by about {seconds} seconds.':
    '{said} Les horloges de ce serveur et du fournisseur d’identité diffèrent d’environ {seconds} secondes.',
  '{said} The browser did not send the session cookie back: it refuses cookies of this site, or the cookie was too large for it or for a proxy on the way.':
    '{said} Le navigateur n’a pas renvoyé le cookie de session : il refuse les cookies de ce site, ou le cookie était trop grand pour lui ou pour un proxy en chemin.',
  'Allow cookies for this site, and leave private mode or switch off extensions that block them.':
    'Autorisez les cookies de ce site, et quittez le mode privé ou désactivez les extensions qui les bloquent.',
  'The SAML session has no usable subject identifier.':
    'La session SAML n’a aucun identifiant utilisable de la personne.',
  'The SAML session has no usable subject identifier. The one it has contains control characters or white space other than spaces.':
    'La session SAML n’a aucun identifiant utilisable de la personne. Celui qu’elle a contient des caractères de contrôle ou des blancs autres que des espaces.',
  'This user name cannot be used here': 'Ce nom d’utilisateur ne peut pas être utilisé ici',
  'The application expects user names without a colon, and yours has one.':
    'L’application attend des noms d’utilisateur sans deux-points, et le vôtre en a un.',
  'The session is over already': 'La session est déjà terminée',
  'The identity provider says that your session there has ended already.':
    'Le fournisseur d’identité dit que votre session chez lui est déjà terminée.',
  'Your session is too large for the browser': 'Votre session est trop grande pour le navigateur',
  'You have signed in, but what the identity provider says about you does not fit the cookies a browser keeps.':
    'Vous vous êtes connecté, mais ce que le fournisseur d’identité dit de vous ne tient pas dans les cookies qu’un navigateur garde.',
  'It was sent already, or could not be kept for so long.':
    'Il a déjà été envoyé, ou n’a pas pu être conservé aussi longtemps.',
  'You are signed in as another user than when you filled it in.':
    'Vous êtes connecté sous un autre nom que lorsque vous l’avez rempli.',
  'It did not come from a page of this service.': 'Il ne vient pas d’une page de ce service.',
}
