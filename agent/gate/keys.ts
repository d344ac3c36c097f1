/** API keys, stored as digests: comparing digests takes the same time for keys of any length. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";

/** One key per line. A file without keys is an error: it must not disable authentication. */
export function readGateKeys(file: string): readonly string[] {
  const keys = readFileSync(file, "utf8")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  if (keys.length === 0) throw new Error(`${file} holds no key`);
  return keys;
}

export function keyDigestOf(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** Compares every key, also after a match, so that the time reveals nothing about the keys. */
export function hasValidKey(headers: IncomingHttpHeaders, keys: readonly Buffer[]): boolean {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
  const shown = keyDigestOf(bearer ?? String(headers["x-api-key"] ?? ""));
  return keys.filter((key) => timingSafeEqual(key, shown)).length > 0;
}
