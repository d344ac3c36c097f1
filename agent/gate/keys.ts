/** API keys, kept as digests: comparing those takes the same time for every key, whatever its length. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";

export type Digest = Buffer;

/** One key per line. A file without any is an error: it must not open the door. */
export function readGateKeys(file: string): readonly string[] {
  const keys = readFileSync(file, "utf8")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  if (keys.length === 0) throw new Error(`${file} holds no key`);
  return keys;
}

export function keyDigestOf(key: string): Digest {
  return createHash("sha256").update(key).digest();
}

/** Every key is compared, whichever matches, so that the time says nothing about them. */
export function hasValidKey(headers: IncomingHttpHeaders, keys: readonly Digest[]): boolean {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
  const shown = keyDigestOf(bearer ?? String(headers["x-api-key"] ?? ""));
  return keys.filter((key) => timingSafeEqual(key, shown)).length > 0;
}
