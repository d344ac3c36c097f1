/** Equality of JSON values. */
import { isRecord } from "./owned-fields.ts";

/** Fields that are absent, undefined or null are the same: the server drops nulls. */
export function isEqual(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (left == null && right == null) return true;
  if (Array.isArray(left)) {
    return (
      Array.isArray(right) &&
      left.length === right.length &&
      left.every((part, index) => isEqual(part, right[index]))
    );
  }
  if (!isRecord(left) || !isRecord(right)) return false;
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
    if (!isEqual(left[name], right[name])) return false;
  }
  return true;
}
