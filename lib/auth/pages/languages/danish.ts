/**
 * The sentences of the pages in Danish.
 */
import type { Sentence } from './german.ts'

export const danish: Readonly<Record<Sentence, string>> = {
  // Words of every page.
  'If you ask for help, give this reference:': 'Når du beder om hjælp, så oplys denne reference:',
  'You can ask here for help:': 'Her kan du få hjælp:',
  'For the administrator': 'For administratoren',
  // Around a login.
  'Signing in': 'Log ind',
  'Signed in': 'Logget ind',
  Continue: 'Fortsæt',
  'Continue to sign in': 'Fortsæt til login',
  'Sending your form': 'Din formular sendes',
  'Send the form you filled in': 'Send den formular, du har udfyldt',
  'Signing out': 'Log ud',
  'Continue to sign out': 'Fortsæt til logud',
  'Sign out?': 'Log ud?',
  'A link or another site asked to sign you out. Do you want to sign out?':
    'Et link eller et andet websted har bedt om at logge dig ud. Vil du logge ud?',
  'Sign out': 'Log ud',
  'Stay signed in': 'Forbliv logget ind',
  'You are signed out': 'Du er logget ud',
  'Your session here and at the identity provider has ended.':
    'Din session her og hos identitetsudbyderen er afsluttet.',
  'Your session here has ended. The identity provider did not confirm that all others have.':
    'Din session her er afsluttet. Identitetsudbyderen har ikke bekræftet, at alle andre også er det.',
  'Your session here has ended. Your session at the identity provider stays active, and may sign you in again without asking.':
    'Din session her er afsluttet. Din session hos identitetsudbyderen er stadig aktiv og kan logge dig ind igen uden at spørge.',
  'To be safe on a shared computer, close the browser.':
    'Luk browseren for en sikkerheds skyld, hvis andre også bruger computeren.',
  'There is no session here.': 'Der er ingen session her.',
  // Requests on their way to the application.
  'Loop detected': 'Løkke opdaget',
  'This request came back to where it had been forwarded from.':
    'Denne forespørgsel kom tilbage til det sted, den var sendt videre fra.',
  'The application cannot be reached': 'Programmet kan ikke nås',
  'Your request reached this service, but the application behind it did not answer.':
    'Din forespørgsel nåede denne tjeneste, men programmet bag den svarede ikke.',
  'Please try again in a moment.': 'Prøv igen om et øjeblik.',
  'Tell your administrator the reference below.':
    'Oplys referencen nedenfor til din administrator.',
  'If it happens again, tell your administrator the reference below.':
    'Hvis det sker igen, så oplys referencen nedenfor til din administrator.',
  'The upload stopped': 'Overførslen gik i stå',
  'The content of the request did not arrive in time.':
    'Forespørgslens indhold nåede ikke frem i tide.',
  'Please send it again, over a better connection if you have one.':
    'Send det igen, helst over en bedre forbindelse.',
  'The upload cannot be read': 'Overførslen kan ikke læses',
  'The content of the request is malformed.': 'Forespørgslens indhold er misdannet.',
  'Please send it again.': 'Send det igen.',
  'This request cannot be forwarded': 'Denne forespørgsel kan ikke sendes videre',
  'A header of the request has characters that are not allowed in headers.':
    'En header i forespørgslen har tegn, som ikke er tilladt i headere.',
  'Delete the cookies of this site in your browser and try again.':
    'Slet dette websteds cookies i din browser, og prøv igen.',
  'Not an address of this service': 'Ikke en adresse på denne tjeneste',
  'The request names another server, or no path at all.':
    'Forespørgslen nævner en anden server eller slet ingen sti.',
  'Open the address of the application in your browser.': 'Åbn programmets adresse i din browser.',
  'This is not the address of the service': 'Dette er ikke tjenestens adresse',
  'You cannot sign in under this host name: the cookies of the login would belong to another one.':
    'Du kan ikke logge ind under dette værtsnavn: cookies fra dette login ville høre til et andet.',
  'Use the address below.': 'Brug adressen nedenfor.',
  'Go to {domain}': 'Gå til {domain}',
  'This page needs a secure connection': 'Denne side kræver en sikker forbindelse',
  'Your browser came here by http, without TLS. The cookies of a login are sent over https only, so you cannot sign in this way.':
    'Din browser kom hertil med http, uden TLS. Cookies fra et login sendes kun over https, så du kan ikke logge ind på denne måde.',
  'Open the address below, which begins with https.':
    'Åbn adressen nedenfor, som begynder med https.',
  'Go to {base}': 'Gå til {base}',
  'Not from this page': 'Ikke fra denne side',
  'Pages of other sites may not open connections here.':
    'Sider fra andre websteder må ikke åbne forbindelser her.',
  'What you sent was not kept': 'Det, du sendte, blev ikke gemt',
  'There is no valid session, and the request could not be kept until you have signed in: {because}. The application has not received it.':
    'Der er ingen gyldig session, og forespørgslen kunne ikke gemmes, til du er logget ind: {because}. Programmet har ikke modtaget den.',
  'To keep what you filled in: sign in in another tab, then go back here and send it again.':
    'Sådan beholder du det, du har udfyldt: Log ind i en anden fane, gå tilbage hertil, og send det igen.',
  'Sign in': 'Log ind',
  'this service keeps none': 'denne tjeneste gemmer ingen',
  'it is not a form': 'den er ikke en formular',
  'it comes from a page of another site': 'den kommer fra en side på et andet websted',
  'its address is none to come back to': 'dens adresse kan man ikke vende tilbage til',
  'it is too large': 'den er for stor',
  'it did not arrive in time': 'den nåede ikke frem i tide',
  'too many others are being kept at the moment': 'der gemmes for mange andre i øjeblikket',
  'it was sent already': 'den er allerede sendt',
  'Something went wrong here': 'Noget gik galt her',
  'The service made a mistake.': 'Tjenesten begik en fejl.',
  // Logins and logouts that failed.
  'Signing in did not work': 'Login lykkedes ikke',
  'The answer of the identity provider could not be accepted.':
    'Svaret fra identitetsudbyderen kunne ikke accepteres.',
  'Sign in again.': 'Log ind igen.',
  'Sign in again': 'Log ind igen',
  'The identity provider says more about you than this service takes. Most likely you are in very many groups.':
    'Identitetsudbyderen siger mere om dig, end denne tjeneste tager imod. Sandsynligvis er du med i rigtig mange grupper.',
  'This answer belongs to no sign-in that is under way in this browser. It may have taken too long, or the page was loaded twice.':
    'Dette svar hører ikke til noget login, som er i gang i denne browser. Måske tog det for lang tid, eller siden blev indlæst to gange.',
  'Too many people are signing in at this moment.':
    'Der er for mange, som logger ind i dette øjeblik.',
  'Wait a moment, then sign in again.': 'Vent et øjeblik, og log så ind igen.',
  'Signing out was not completed': 'Logud blev ikke gennemført',
  'A message about signing out came from the identity provider and could not be accepted. It has signed out no user.':
    'Der kom en meddelelse om logud fra identitetsudbyderen, som ikke kunne accepteres. Den har ikke logget nogen ud.',
  'Sign out in the application, then close the browser.':
    'Log ud i programmet, og luk så browseren.',
  'Go to the application': 'Gå til programmet',
  'You are signed in, but the session did not stay': 'Du er logget ind, men sessionen holdt ikke',
  'You have been signed in several times, but each time the next request came without a valid session.':
    'Du er blevet logget ind flere gange, men hver gang kom den næste forespørgsel uden en gyldig session.',
  'The identity provider has signed you in, but no valid session came back with the next request.':
    'Identitetsudbyderen har logget dig ind, men der kom ingen gyldig session tilbage med den næste forespørgsel.',
  'Try again': 'Prøv igen',
  'No usable subject identifier': 'Ingen brugbar identifikation af personen',
  'Your form was not sent': 'Din formular blev ikke sendt',
  'Please fill it in again if you still want to send it.':
    'Udfyld den igen, hvis du stadig vil sende den.',
  'Nothing to see here': 'Her er intet at se',
  'The identity provider delivers its answers to this address; it is no page to visit.':
    'Identitetsudbyderen leverer sine svar på denne adresse; den er ikke en side at besøge.',
  'Go to the application. If you are not signed in any more, it will ask you to.':
    'Gå til programmet. Hvis du ikke længere er logget ind, beder det dig om det.',
  'Signing in is not possible right now': 'Det er ikke muligt at logge ind lige nu',
  'What is known of the identity provider is out of date.':
    'Det, der vides om identitetsudbyderen, er forældet.',
  'Try again in a few minutes.': 'Prøv igen om nogle minutter.',
  'The clocks of this server and of the identity provider differ by about {seconds} seconds.':
    'Urene på denne server og hos identitetsudbyderen afviger med omkring {seconds} sekunder.',
  'The clocks of this server and of the identity provider differ by about {seconds} seconds, or its answer was that long on its way.':
    'Urene på denne server og hos identitetsudbyderen afviger med omkring {seconds} sekunder, eller svaret var så længe undervejs.',
  'The browser did not send back the cookie that was set when signing in began: it refuses cookies, it took too long, or signing in began somewhere else.':
    'Browseren sendte ikke den cookie tilbage, som blev sat, da login begyndte: Den afviser cookies, det tog for lang tid, eller login begyndte et andet sted.',
  'Allow cookies for this site, and sign in within the time the identity provider gives you.':
    'Tillad cookies for dette websted, og log ind inden for den tid, identitetsudbyderen giver dig.',
  'Begin at the address below, with https: a cookie that was set without TLS, or under another name, does not come back.':
    'Begynd på adressen nedenfor, med https: En cookie, der er sat uden TLS eller under et andet navn, kommer ikke tilbage.',
  'Do not begin at the identity provider, nor at a bookmark of its page.':
    'Begynd ikke hos identitetsudbyderen og heller ikke med et bogmærke til dens side.',
  'The identity provider did not sign you in.': 'Identitetsudbyderen loggede dig ikke ind.',
  'If it happens again, you may lack access to this application: ask your administrator.':
    'Hvis det sker igen, mangler du måske adgang til dette program: Spørg din administrator.',
  'This application asks for another way of signing in than the one the identity provider used.':
    'Dette program kræver en anden måde at logge ind på end den, identitetsudbyderen brugte.',
  'Sign in again, and choose another way if you are offered one.':
    'Log ind igen, og vælg en anden måde, hvis du bliver tilbudt en.',
  'This address takes the answers of the identity provider and nothing else.':
    'Denne adresse tager imod svar fra identitetsudbyderen og intet andet.',
  'Open the application and sign in from there.': 'Åbn programmet, og log ind derfra.',
  'The answer of the identity provider did not arrive in time.':
    'Svaret fra identitetsudbyderen nåede ikke frem i tide.',
  'What came to this address is no answer of an identity provider.':
    'Det, der kom til denne adresse, er ikke et svar fra en identitetsudbyder.',
  '{said} This server is reached under another host name than it is configured for, so the cookie belongs to that name.':
    '{said} Denne server nås under et andet værtsnavn, end den er indstillet til, så cookien hører til det navn.',
  'Open the address below instead.': 'Åbn adressen nedenfor i stedet.',
  '{said} The edge in front of this service says that the request came without TLS, and browsers do not send session cookies over such connections.':
    '{said} Serveren foran denne tjeneste siger, at forespørgslen kom uden TLS, og browsere sender ikke sessionscookies over sådanne forbindelser.',
  'Open the address below instead, with https.': 'Åbn adressen nedenfor i stedet, med https.',
  '{said} The browser sent a session cookie, but not one that is valid here.':
    '{said} Browseren sendte en sessionscookie, men ikke en, der er gyldig her.',
  'Delete the cookies of this site and try again.': 'Slet dette websteds cookies, og prøv igen.',
  '{said} The clocks of this server and of the identity provider differ by about {seconds} seconds.':
    '{said} Urene på denne server og hos identitetsudbyderen afviger med omkring {seconds} sekunder.',
  '{said} The browser did not send the session cookie back: it refuses cookies of this site, or the cookie was too large for it or for a proxy on the way.':
    '{said} Browseren sendte ikke sessionscookien tilbage: Den afviser cookies fra dette websted, eller cookien var for stor til den eller til en proxy på vejen.',
  'Allow cookies for this site, and leave private mode or switch off extensions that block them.':
    'Tillad cookies for dette websted, og forlad privat tilstand, eller slå udvidelser fra, som blokerer dem.',
  'The SAML session has no usable subject identifier.':
    'SAML-sessionen har ingen brugbar identifikation af personen.',
  'The SAML session has no usable subject identifier. The one it has contains control characters or white space other than spaces.':
    'SAML-sessionen har ingen brugbar identifikation af personen. Den, den har, indeholder kontroltegn eller andre blanktegn end mellemrum.',
  'This user name cannot be used here': 'Dette brugernavn kan ikke bruges her',
  'The application expects user names without a colon, and yours has one.':
    'Programmet forventer brugernavne uden kolon, og dit har et.',
  'The session is over already': 'Sessionen er allerede slut',
  'The identity provider says that your session there has ended already.':
    'Identitetsudbyderen siger, at din session dér allerede er afsluttet.',
  'Your session is too large for the browser': 'Din session er for stor til browseren',
  'You have signed in, but what the identity provider says about you does not fit the cookies a browser keeps.':
    'Du er logget ind, men det, identitetsudbyderen siger om dig, passer ikke i de cookies, en browser gemmer.',
  'It was sent already, or could not be kept for so long.':
    'Den er allerede sendt eller kunne ikke gemmes så længe.',
  'You are signed in as another user than when you filled it in.':
    'Du er logget ind som en anden bruger, end da du udfyldte den.',
  'It did not come from a page of this service.': 'Den kom ikke fra en side på denne tjeneste.',
}
