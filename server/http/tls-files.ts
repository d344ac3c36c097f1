/** Follows the certificate files of a port and serves a renewed certificate without a restart. */

import { unwatchFile, watchFile } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Server } from "node:tls";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Log } from "../../src/util/ports.ts";

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** Interval of stat calls. A Secret's volume replaces a link to a folder, which file system events do not report. */
const STAT_MS = 2_000;

export async function readTls({ cert, key }: TlsFiles) {
  const read = (file: string) =>
    readFile(file).catch((cause: unknown) => {
      throw new MetalbridgeError("ServerConfigInvalid", `${file} cannot be read`, undefined, { cause });
    });
  return { cert: await read(cert), key: await read(key) };
}

/** Until `signal`. Files that do not belong together, as between two writes, leave the previous certificate in use. */
export function followTls(
  server: Pick<Server, "setSecureContext">,
  files: TlsFiles,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): void {
  const follow = async () => {
    try {
      server.setSecureContext(await readTls(files));
      log.info({ cert: files.cert }, "serving the renewed certificate");
    } catch (error) {
      log.warn({ err: error, cert: files.cert }, "still serving the previous certificate");
    }
  };
  const listener = () => void follow();
  for (const file of [files.cert, files.key])
    watchFile(file, { interval: STAT_MS, persistent: false }, listener);
  signal.addEventListener(
    "abort",
    () => {
      for (const file of [files.cert, files.key]) unwatchFile(file, listener);
    },
    { once: true },
  );
}
