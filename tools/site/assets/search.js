// The search: every word must occur in a part of a page; parts with the words in their heading come first, short
// answers before all, decisions and history last. The texts are loaded at
// the first use, as a script, because a browser reads no other file of a directory by `file:`.
'use strict'
{
  const box = document.getElementById('site-search')
  const input = document.getElementById('site-words')
  const results = document.getElementById('site-results')
  const found = document.getElementById('site-found')
  const list = results.querySelector('ol')
  const most = 30
  let pages
  let loading = false

  box.hidden = false

  window.searchIndex = given => {
    pages = given.map(page => ({
      ...page,
      parts: page.parts.map(([id, heading, text]) => ({
        id,
        heading,
        text,
        lowHeading: `${page.title} ${heading}`.toLowerCase(),
        low: text.toLowerCase(),
      })),
    }))
    show()
  }

  const load = () => {
    if (loading) return
    loading = true
    const script = document.createElement('script')
    script.src = box.dataset.index
    document.head.append(script)
  }

  // Reasons, history and files are for readers who look for them: below the pages that say what to do.
  const weightOf = place => {
    if (place === 'docs/answers.html') return 4
    return /^(docs\/decisions|bench|packaging|test)\/|^CHANGELOG/.test(place) ? 0.25 : 1
  }

  const search = words => {
    const starts = words.map(word => new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}`, 'gu'))
    const phrase = words.join(' ')
    const hits = []
    for (const page of pages) {
      const title = page.title.toLowerCase()
      for (const part of page.parts) {
        let score = 0
        for (const [index, word] of words.entries()) {
          const inHeading = part.lowHeading.includes(word)
          if (!inHeading && !part.low.includes(word)) {
            score = 0
            break
          }
          // A word that only stands within another one, as "ram" does in "frame", is found last.
          const heading = part.id === '' ? part.lowHeading : part.heading.toLowerCase()
          const begins = (text, points) => (text.match(starts[index])?.length ?? 0) > 0 ? points : 0
          score += 0.1 + begins(heading, 20) + begins(title, 3) + Math.min(5, part.low.match(starts[index])?.length ?? 0)
        }
        if (score > 0 && part.heading.toLowerCase() === phrase) score += 40
        if (score > 0 && words.length > 1 && part.low.includes(phrase)) score += 10
        if (score > 0) hits.push({ page, part, score: score * weightOf(page.place) })
      }
    }
    return hits.sort((a, b) => b.score - a.score)
  }

  // The words of the text around the first one that was searched for, in which all of them are marked.
  const excerpt = (text, low, words) => {
    const first = Math.min(...words.map(word => low.indexOf(word)).filter(at => at >= 0), low.length)
    const begin = first > 60 ? text.indexOf(' ', first - 60) + 1 : 0
    const end = text.length > begin + 180 ? text.lastIndexOf(' ', begin + 180) : text.length
    const piece = text.slice(begin, end) + (end < text.length ? ' …' : '')
    const line = document.createElement('span')
    line.append(begin > 0 ? '… ' : '')
    const marks = new RegExp(`(${words.map(word => word.replace(/[^\p{L}\p{N}]/gu, '\\$&')).join('|')})`, 'gi')
    piece.split(marks).forEach((text, index) => {
      if (index % 2 === 0) return line.append(text)
      const mark = document.createElement('mark')
      mark.textContent = text
      line.append(mark)
    })
    return line
  }

  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(word => word.length > 1)
    results.hidden = words.length === 0
    if (words.length === 0 || pages === undefined) {
      found.textContent = words.length === 0 ? '' : 'Loading the texts'
      return list.replaceChildren()
    }
    const hits = search(words)
    found.textContent =
      hits.length === 0 ? 'Nothing has all of these words' : `${hits.length} found${hits.length > most ? `, the first ${most}` : ''}`
    list.replaceChildren(
      ...hits.slice(0, most).map(({ page, part }) => {
        const link = document.createElement('a')
        link.href = `${box.dataset.root}${page.place}${part.id === '' ? '' : `#${part.id}`}`
        const title = document.createElement('strong')
        title.textContent = part.heading === '' || part.heading === page.title ? page.title : `${page.title}: ${part.heading}`
        link.append(title, excerpt(part.text, part.low, words))
        const item = document.createElement('li')
        item.append(link)
        return item
      }),
    )
  }

  const close = () => {
    results.hidden = true
  }

  input.addEventListener('focus', () => {
    load()
    if (input.value !== '') show()
  })
  input.addEventListener('input', show)
  input.addEventListener('keydown', event => {
    if (event.key === 'Enter') list.querySelector('a')?.click()
    if (event.key === 'ArrowDown') list.querySelector('a')?.focus()
    if (event.key === 'ArrowDown') event.preventDefault()
  })
  list.addEventListener('keydown', event => {
    const item = document.activeElement.closest('li')
    const next = event.key === 'ArrowDown' ? item?.nextElementSibling : event.key === 'ArrowUp' ? item?.previousElementSibling : undefined
    if (event.key === 'ArrowUp' && next === null) input.focus()
    next?.querySelector('a').focus()
    if (event.key.startsWith('Arrow')) event.preventDefault()
  })
  list.addEventListener('click', close)
  document.addEventListener('keydown', event => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)
    if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault()
      input.focus()
    }
    if (event.key === 'Escape') close()
  })
  document.addEventListener('click', event => {
    if (!box.contains(event.target)) close()
  })
}
