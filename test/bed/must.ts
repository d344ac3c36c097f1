import type { ApiResult } from "../../src/kube/types.ts";

/** The value, or the API server's message as an error. */
export function must<T>(result: ApiResult<T>): T {
  if (result.ok) return result.value;
  throw new Error(`${result.error.status} ${result.error.reason}: ${result.error.message}`);
}
