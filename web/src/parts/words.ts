/** Search by words: each must occur, in any order. */
export function hasWords(texts: readonly string[], words: string): boolean {
  const text = texts.join(" ").toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
