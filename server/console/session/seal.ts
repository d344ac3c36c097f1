/** Encrypts small values into texts that only this server can read, for cookies. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { parseJson } from "../../../src/util/parse-json.ts";

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MAX_PLAIN_BYTES = 64 * 1024;

export interface Seal {
  /** `purpose` is authenticated: a value does not open for another purpose. */
  readonly seal: (purpose: string, value: unknown) => string;
  /** Undefined for a text that was changed, or that another key has sealed. */
  readonly open: (purpose: string, text: string) => unknown;
}

/** Servers that share the secret open each other's values. Without a secret, only this process opens them. */
export function createSeal(secret?: Buffer): Seal {
  const key =
    secret === undefined
      ? randomBytes(32)
      : createHash("sha256").update("metalbridge console session").update(secret).digest();
  return {
    seal: (purpose, value) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(Buffer.from(purpose));
      // A token in base64 shrinks by a quarter, which makes up for the base64 of the sealed text.
      const plain = deflateRawSync(JSON.stringify(value));
      const sealed = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString("base64url");
    },
    open: (purpose, text) => {
      const bytes = Buffer.from(text, "base64url");
      if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
      const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      })
        .setAAD(Buffer.from(purpose))
        .setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      try {
        const sealed = bytes.subarray(NONCE_BYTES + TAG_BYTES);
        const plain = Buffer.concat([decipher.update(sealed), decipher.final()]);
        return parseJson(inflateRawSync(plain, { maxOutputLength: MAX_PLAIN_BYTES }).toString("utf8"));
      } catch {
        return undefined;
      }
    },
  };
}
