/** Sets the entry as the newest one of a map with a size limit: at the limit, the oldest entry is removed. */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, maxEntries: number): void {
  map.delete(key);
  const [oldest] = map.keys();
  if (map.size >= maxEntries && oldest !== undefined) map.delete(oldest);
  map.set(key, value);
}
