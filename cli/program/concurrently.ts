/** Requests to many hosts or for many objects, a few at the same time. */

/** As many as the client of the API server sends at once. */
const AT_ONCE = 8;

/** Begins in the order of the items. Rejects with the first failure. */
export async function forEachConcurrently<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
  atOnce = AT_ONCE,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const worker = async () => {
    for (let next = rest.next(); next.done !== true; next = rest.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
