/** When a node was last heard of: it changes all the time, and does not make an answer another one. */
export const TIMES = /"(lastSeen|LastSeen)":"[^"]*"/g;

export function withoutTimes(text: string): string {
  return text.replaceAll(TIMES, "");
}
