/** Entries of BackendRuntimes in `status.runtimes` of a Host, which never have the name of a runtime. */

const PREFIX = "backend/";

/** Entry of a host that allows the BackendRuntime and has its program. */
export function backendEntry(name: string): string {
  return `${PREFIX}${name}`;
}

/** Name of the BackendRuntime of an entry; undefined for a runtime or a known program. */
export function backendOfEntry(entry: string): string | undefined {
  return entry.startsWith(PREFIX) ? entry.slice(PREFIX.length) : undefined;
}
