/** What a Secret may hold for a source, and what it is for. */

/** As in the Secret, by key, without blanks around them. */
export type SourceCredentials = Readonly<Record<string, string>>;

/** Keys that hold a token; first match wins. */
const TOKEN_KEYS = ["token", "HF_TOKEN", "hf-token", "password"] as const;

/** Every key that is read of a source's Secret, under the names that other tools have for it. */
export const CREDENTIAL_KEYS = [
  ...TOKEN_KEYS,
  "username",
  ".dockerconfigjson",
  "AWS_ACCESS_KEY_ID",
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "AWS_REGION",
  "AWS_DEFAULT_REGION",
  "AWS_ENDPOINT_URL",
  "AWS_ENDPOINT_URL_S3",
  "AWS_S3_ADDRESSING_STYLE",
  "GS_ACCESS_KEY_ID",
  "GS_SECRET_ACCESS_KEY",
  "GOOGLE_APPLICATION_CREDENTIALS_JSON",
  "gcloud-application-credentials.json",
  "STORAGE_EMULATOR_HOST",
  "OSS_ACCESS_KEY_ID",
  "OSS_ACCESS_KEY_SECRET",
  "OSS_SESSION_TOKEN",
  "OSS_REGION",
  "OSS_ENDPOINT",
  "MODELSCOPE_API_TOKEN",
  "MODELSCOPE_ENDPOINT",
] as const;

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
  // Of JSON only an entry is sent, and that is encoded, or a signature by it.
  const keys = Object.keys(credentials).filter((key) => !/json$/i.test(key));
  return keys.find((key) => !/^[\x21-\x7e]+$/.test(credentials[key] ?? ""));
}

/** The token as a header; none where there is no token. */
export function bearerHeaders(credentials: SourceCredentials = {}): Record<string, string> {
  const key = TOKEN_KEYS.find((candidate) => credentials[candidate] !== undefined);
  return key === undefined ? {} : { authorization: `Bearer ${credentials[key]}` };
}
