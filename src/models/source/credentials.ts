/** The keys that a Secret may contain for a source, and their use. */
import { SOURCE_KINDS } from "./kinds/registry.ts";

/** As in the Secret, by key, without blanks around them. */
export type SourceCredentials = Readonly<Record<string, string>>;

/** Keys that hold a token; first match wins. */
const TOKEN_KEYS = ["token", "HF_TOKEN", "hf-token", "password"] as const;

/** Every key that is read of a source's Secret, under the names that other tools have for it. */
export const CREDENTIAL_KEYS: readonly string[] = [
  ...TOKEN_KEYS,
  "username",
  ".dockerconfigjson",
  ...SOURCE_KINDS.flatMap(({ credentialKeys = [] }) => credentialKeys),
];

/** The keys that a host reads from its own environment: those that only one kind of source knows, and are names of variables. */
export const MACHINE_VARIABLES: readonly string[] = SOURCE_KINDS.flatMap(
  ({ credentialKeys = [] }) => credentialKeys,
).filter((key) => /^[A-Z0-9_]+$/.test(key));

/** Before each key in the environment of a download, so that none of them can be a setting of the program. */
export const CREDENTIAL_ENV_PREFIX = "SOURCE_";

/** The keys that are there; undefined where none is. */
export function pickCredentials(read: (key: string) => string | undefined): SourceCredentials | undefined {
  const found = CREDENTIAL_KEYS.flatMap((key) => {
    const value = read(key)?.trim();
    return value === undefined ? [] : [[key, value] as const];
  });
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** The key of a credential that cannot be part of a header; undefined where all can. */
export function unsendableKey(credentials: SourceCredentials): string | undefined {
  // JSON is never sent itself: only an encoded entry, or a signature made with it.
  const keys = Object.keys(credentials).filter((key) => !/json$/i.test(key));
  return keys.find((key) => !/^[\x21-\x7e]+$/.test(credentials[key] ?? ""));
}

/** The token as a header; none where there is no token. */
export function bearerHeaders(credentials: SourceCredentials = {}): Record<string, string> {
  const key = TOKEN_KEYS.find((candidate) => credentials[candidate] !== undefined);
  return key === undefined ? {} : { authorization: `Bearer ${credentials[key]}` };
}
