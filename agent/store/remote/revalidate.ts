/** Asks whether a file at its source is still the one that was fetched, without fetching it. */
import { parseLength, validatorOf } from "./body.ts";
import { statusFailure } from "./failure.ts";
import type { Validator } from "./part.ts";
import { exchange, type RemoteRules } from "./request.ts";

/** True when the source says or shows that nothing changed. Throws AttemptFailure when it gives no answer. */
export async function isUnchanged(
  url: URL,
  known: Validator,
  ask: { rules: RemoteRules; secretHeaders: Readonly<Record<string, string>>; signal: AbortSignal },
): Promise<boolean> {
  const { rules, ...rest } = ask;
  const conditions: Record<string, string> = {
    ...(known.etag === undefined ? {} : { "if-none-match": known.etag }),
    ...(known.lastModified === undefined ? {} : { "if-modified-since": known.lastModified }),
  };
  const head = await exchange(url, { method: "HEAD", headers: conditions, ...rest }, rules);
  head.response.destroy();
  const status = head.response.statusCode ?? 0;
  if (status === 304) return true;
  if (status === 200)
    return matches(
      known,
      validatorOf(head.response.headers),
      parseLength(head.response.headers["content-length"]),
    );
  if (status !== 403 && status !== 405 && status !== 501)
    throw statusFailure(url, status, head.response.headers["retry-after"]);
  // Addresses signed for GET only refuse HEAD.
  const get = await exchange(url, { method: "GET", headers: { range: "bytes=0-0" }, ...rest }, rules);
  get.response.destroy();
  const { headers, statusCode = 0 } = get.response;
  if (statusCode !== 200 && statusCode !== 206) throw statusFailure(url, statusCode, headers["retry-after"]);
  const total = statusCode === 206 ? headers["content-range"]?.split("/")[1] : headers["content-length"];
  return matches(known, validatorOf(headers), parseLength(total));
}

/** A source that says nothing about its content counts as changed: better fetched twice than served stale. */
function matches(known: Validator, now: Validator, totalBytes: number | undefined): boolean {
  if (totalBytes !== undefined && known.totalBytes !== undefined && totalBytes !== known.totalBytes)
    return false;
  if (known.etag !== undefined && now.etag !== undefined) return known.etag === now.etag;
  return known.lastModified !== undefined && known.lastModified === now.lastModified;
}
