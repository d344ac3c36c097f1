/** Digests for names and revisions. */
import { createHash } from "node:crypto";
import { compareText } from "./text.ts";

/** Hex SHA-256 of small bytes, or of a small text in UTF-8. The store hashes files. */
export function sha256Hex(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

/** A short, stable digest for names: the first `length` hex digits of SHA-256. */
export function hash(text: string, length = 10): string {
  return sha256Hex(text).slice(0, length);
}

/** JSON with sorted object keys and without undefined values, so that equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  return (
    JSON.stringify(value, (_key, inner: unknown) => (isRecord(inner) ? sortedKeys(inner) : inner)) ?? "null"
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function sortedKeys(record: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(record).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries.sort(([a], [b]) => compareText(a, b)));
}
