/** Reads the credentials of a source in a download Job: from the environment, where each key of the Secret has a prefix. */
import {
  CREDENTIAL_ENV_PREFIX,
  pickCredentials,
  type SourceCredentials,
} from "../../src/models/source/credentials.ts";

/** Undefined if there are none. */
export function readSourceCredentials(): SourceCredentials | undefined {
  return pickCredentials((key) => process.env[`${CREDENTIAL_ENV_PREFIX}${key}`] || undefined);
}
