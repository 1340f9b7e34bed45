// What is found for the words of a reader: MiniSearch over the parts of all pages, with stems, the words of the field, beginnings of words
// and slips of the finger. When no part has all words, parts with some of them are found. It knows no page and no browser.
'use strict'
{
  // Other words for what the documents say, as readers type them. Each is replaced by the words after it, before the search.
  const phrases = [
    ['reverse proxy', 'edge'],
    ['reverse proxies', 'edge'],
    ['air gapped', 'offline'],
    ['air gap', 'offline'],
    ['log out', 'logout'],
    ['sign out', 'logout'],
    ['sign in', 'login'],
    ['log in', 'login'],
    ['back up', 'backup'],
    ['web interface', 'pages'],
    ['web ui', 'pages'],
    ['high availability', 'failover'],
    ['lock out', 'lockout'],
    ['take access away', 'lockout'],
  ]

  // Words of the same meaning: who types one finds the others too, a little later.
  const synonyms = {
    repository: ['archive'],
    repo: ['archive'],
    airgap: ['offline'],
    airgapped: ['offline'],
    ha: ['failover'],
    uninstall: ['purge', 'remove'],
    deinstall: ['purge', 'remove'],
    kick: ['lockout', 'end'],
    ban: ['lockout'],
    quota: ['retention', 'disk'],
    limit: ['limits'],
    space: ['size'],
    full: ['retention'],
    pin: ['snapshot', 'hold'],
    freeze: ['snapshot', 'hold'],
    migrate: ['move'],
    failed: ['wrong'],
    private: ['credentials'],
    admins: ['groups'],
    sso: ['login'],
    mirror: ['origin'],
    ssl: ['tls'],
    cert: ['certificate'],
    username: ['user'],
    upgrade: ['update'],
  }

  const noise = new Set(
    'a an and are as at be by can did do does for from has have how i if in is it my no of on or our so than that the then there these they this to use we what when where which who why will with you your'.split(
      ' ',
    ),
  )

  // Ends of English words, the longest first. What is left has to have three letters and a vowel.
  const ends = ['ations', 'ation', 'ingly', 'ions', 'ible', 'able', 'ings', 'ates', 'ated', 'ate', 'ion', 'ies', 'ied', 'ing', 'ers', 'ed', 'er', 'es', 'ly', 's', 'e', 'y']

  /** The stem of a word in small letters: `caching`, `cached` and `cache` have one. */
  const stem = word => {
    if (word.length < 4 || /\d/.test(word)) return word
    const end = ends.find(end => word.endsWith(end) && word.length - end.length >= 3)
    if (end === undefined || word.endsWith('ss')) return word
    const rest = word.slice(0, -end.length)
    if (!/[aeiouy]/.test(rest)) return word
    // `stopped`, `stop`.
    return /([bdfgmnprt])\1$/.test(rest) ? rest.slice(0, -1) : rest
  }

  const processTerm = term => {
    const word = term.toLowerCase()
    return noise.has(word) || word.length < 2 ? null : stem(word)
  }

  /** Words as they stand in a text, in small letters; `serve_stale` and `apt-cacher-ng` are several. */
  const wordsOf = text =>
    text
      .toLowerCase()
      .split(/[^\p{L}\p{N}]+/u)
      .filter(word => word !== '')

  /** The words of a question, with phrases replaced. */
  const asked = question => {
    let text = ` ${wordsOf(question).join(' ')} `
    for (const [phrase, instead] of phrases) text = text.replaceAll(` ${phrase} `, ` ${instead} `)
    return wordsOf(text).filter(word => !noise.has(word))
  }

  const boost = { heading: 6, title: 2.5, keywords: 8, text: 1 }

  /**
   * A function from a question to the parts found, the best first. `pages` have `place`, `title`, `weight` and `parts`; a part has `id`, `heading`,
   * `keywords` and `text`.
   */
  globalThis.siteSearch = (MiniSearch, pages) => {
    const parts = pages.flatMap(page => page.parts.map(part => ({ page, part })))
    const engine = new MiniSearch({
      fields: Object.keys(boost),
      processTerm,
      tokenize: wordsOf,
      extractField: ({ page, part, id }, field) => {
        if (field === 'id') return id
        return field === 'title' ? page.title : part[field]
      },
    })
    engine.addAll(parts.map((each, id) => ({ id, ...each })))
    const options = {
      boost,
      // Characters of a word that may differ; a beginning counts from three letters on.
      fuzzy: term => (term.length > 4 ? 0.2 : false),
      prefix: term => term.length > 2,
      weights: { fuzzy: 0.2, prefix: 0.5 },
      boostDocument: id => parts[id].page.weight,
    }
    const search = (words, combineWith) =>
      engine.search(
        {
          combineWith,
          queries: words.map(word => {
            const others = Object.hasOwn(synonyms, word) ? synonyms[word] : []
            return {
              combineWith: 'OR',
              queries: [word, ...others.map(other => ({ queries: [other], boostTerm: () => 0.6, fuzzy: false }))],
            }
          }),
        },
        options,
      )
    return question => {
      const words = asked(question)
      if (words.length === 0) return []
      const all = search(words, 'AND')
      const seen = new Set(all.map(({ id }) => id))
      // Any word where not all: a part with most of them comes first.
      const some = words.length > 1 ? search(words, 'OR').filter(({ id }) => !seen.has(id)) : []
      const most = Math.max(...some.map(({ score }) => score), 0)
      const enough = some.filter(({ score }) => score > most / 3)
      return [...all, ...(all.length < 10 ? enough : [])].map(({ id, terms }) => ({ ...parts[id], terms }))
    }
  }
}
