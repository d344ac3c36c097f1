/** The credentials of a source, as a download Job gets it: from the environment, each key of the Secret with a prefix. */
import {
  CREDENTIAL_ENV_PREFIX,
  pickCredentials,
  type SourceCredentials,
} from "../../src/models/source/credentials.ts";

/** Undefined where there are none. */
export function readSourceCredentials(): SourceCredentials | undefined {
  return pickCredentials((key) => process.env[`${CREDENTIAL_ENV_PREFIX}${key}`] || undefined);
}
