/** The identity of the API server's aggregator, as the API server publishes it for its extensions. Pure. */

export interface Aggregator {
  /** Certificates of the authorities of its client certificate, in PEM. */
  readonly authorities: string;
  /** Common names that its certificate may have. Empty: any. */
  readonly names: readonly string[];
}

/** Undefined if the API server runs without `--requestheader-client-ca-file`, or the names cannot be read. */
export function aggregatorOf(data: Readonly<Record<string, string>> | undefined): Aggregator | undefined {
  const authorities = data?.["requestheader-client-ca-file"];
  const names = readNames(data?.["requestheader-allowed-names"] ?? "[]");
  return authorities?.includes("BEGIN CERTIFICATE") === true && names !== undefined
    ? { authorities, names }
    : undefined;
}

function readNames(text: string): readonly string[] | undefined {
  try {
    const names: unknown = JSON.parse(text);
    return Array.isArray(names) && names.every((name) => typeof name === "string") ? names : undefined;
  } catch {
    return undefined;
  }
}
