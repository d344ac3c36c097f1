/** The token of a source, as a download Job gets it: from the environment, each key of the Secret with a prefix. */
import { SECRET_PREFIX } from "../../src/linux/model-cache.ts";
import { TOKEN_KEYS } from "../../src/models/source/source.ts";

/** Undefined where there is none. */
export function readSourceToken(): string | undefined {
  const found = TOKEN_KEYS.map((key) => process.env[`${SECRET_PREFIX}${key}`]?.trim());
  return found.find((token) => token !== undefined && token !== "");
}
