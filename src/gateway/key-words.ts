/** What the first key and the last one change: one wording for the CLI and the console. */

export function firstKeyWords(name: string, namespace: string): string {
  return `${name} is the first key in namespace ${namespace}: from then on the gateway refuses every request without a key, and listens on its configured address instead of loopback only.`;
}

export function lastKeyWords(name: string, namespace: string): string {
  return `${name} is the last key in namespace ${namespace}: without it the gateway listens on loopback only, and requires no key there.`;
}
