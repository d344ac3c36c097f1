/** Encrypts a token for one machine: X25519 with an ephemeral key, HKDF, AES-256-GCM. */
import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from "node:crypto";

const CIPHER = "aes-256-gcm";
/** A constant nonce is safe: each key encrypts one message. */
const NONCE = Buffer.alloc(12);
const KEY_BYTES = 32;
const TAG_BYTES = 16;

export interface JoinKey {
  /** In PEM. */
  readonly privateKey: string;
  /** In hex. It is also the name of the HostJoinRequest. */
  readonly publicKey: string;
}

export function createJoinKey(): JoinKey {
  const { privateKey, publicKey } = generateKeyPairSync("x25519");
  return {
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    publicKey: rawOf(publicKey).toString("hex"),
  };
}

/** Undefined for an invalid key, or for a key of low order, whose shared secret is public. */
export function sealFor(publicKey: string, text: string): string | undefined {
  const own = generateKeyPairSync("x25519");
  const ownRaw = rawOf(own.publicKey);
  const key = agree(own.privateKey, Buffer.from(publicKey, "hex"), [ownRaw, Buffer.from(publicKey, "hex")]);
  if (key === undefined) return undefined;
  const cipher = createCipheriv(CIPHER, key, NONCE);
  const sealed = [ownRaw, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()];
  return Buffer.concat(sealed).toString("base64url");
}

/** Undefined if the text was sealed for another key or was changed. */
export function openSealed({ privateKey, publicKey }: JoinKey, sealed: string): string | undefined {
  const bytes = Buffer.from(sealed, "base64url");
  const sender = bytes.subarray(0, KEY_BYTES);
  const content = bytes.subarray(KEY_BYTES, -TAG_BYTES);
  if (bytes.length < KEY_BYTES + TAG_BYTES) return undefined;
  const key = agree(createPrivateKey(privateKey), sender, [sender, Buffer.from(publicKey, "hex")]);
  if (key === undefined) return undefined;
  try {
    const decipher = createDecipheriv(CIPHER, key, NONCE).setAuthTag(bytes.subarray(-TAG_BYTES));
    return decipher.update(content, undefined, "utf8") + decipher.final("utf8");
  } catch {
    return undefined;
  }
}

function agree(privateKey: KeyObject, other: Buffer, both: readonly Buffer[]): Buffer | undefined {
  try {
    const jwk = { kty: "OKP", crv: "X25519", x: other.toString("base64url") };
    const publicKey = createPublicKey({ key: jwk, format: "jwk" });
    const shared = diffieHellman({ privateKey, publicKey });
    return Buffer.from(hkdfSync("sha256", shared, Buffer.concat(both), "metalbridge join 1", KEY_BYTES));
  } catch {
    return undefined;
  }
}

function rawOf(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: "jwk" }).x ?? "", "base64url");
}
