/** Whether whoever asks for metrics has the token. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";

/** Rejects where the file gives no token: then nobody is let in. */
export async function isAllowed(authorization: string | undefined, tokenFile: string): Promise<boolean> {
  const said = /^Bearer +(\S+)$/i.exec(authorization ?? "")?.[1];
  if (said === undefined) return false;
  const token = (await readFile(tokenFile, "utf8")).trim();
  if (token === "") throw new Error(`${tokenFile} is empty`);
  // Digests are of one length, and tell nothing by how long their comparison takes.
  return timingSafeEqual(digest(said), digest(token));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
