/**
 * Names of requests for logs and error pages: a word that no other run uses, and a number.
 */
export function requestIds(random: (size: number) => Buffer): () => string {
  const run = random(4).toString('hex')
  let count = 0
  return () => {
    count += 1
    return `${run}-${count.toString(36)}`
  }
}
