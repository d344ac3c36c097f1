import { mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect } from "node:tls";
import { expect, test, vi } from "vitest";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { selfSigned } from "../../test/fixtures/self-signed.ts";
import { followTls, readTls } from "./tls-files.ts";

const WAIT = { timeout: 60_000, interval: 50 };

function served(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

test("a certificate renewed in a Secret volume is served without a restart, and a broken one is ignored", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-tls-"));
  const ending = new AbortController();
  // The test replaces a link to a folder, as kubelet does.
  const write = async (
    name: string,
    { cert, key }: { readonly cert: Buffer | string; readonly key: Buffer },
  ) => {
    await writeFile(path.join(folder, `${name}.crt`), cert);
    await writeFile(path.join(folder, `${name}.key`), key);
    for (const kind of ["crt", "key"]) {
      await symlink(`${name}.${kind}`, path.join(folder, `new.${kind}`));
      await rename(path.join(folder, `new.${kind}`), path.join(folder, `tls.${kind}`));
    }
  };
  const files = { cert: path.join(folder, "tls.crt"), key: path.join(folder, "tls.key") };
  await write("first", selfSigned());
  const server = createServer(await readTls(files));
  try {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const warned = vi.fn();
    followTls(server, files, { log: { ...quietLog, warn: warned }, signal: ending.signal });
    const first = await served(port);
    await write("second", selfSigned());
    await vi.waitFor(async () => expect(await served(port)).not.toBe(first), WAIT);
    const second = await served(port);
    const callsBefore = warned.mock.calls.length;
    await write("third", { ...selfSigned(), cert: "no certificate" });
    await vi.waitFor(() => expect(warned.mock.calls.length).toBeGreaterThan(callsBefore), WAIT);
    expect(await served(port)).toBe(second);
  } finally {
    ending.abort();
    server.close();
    await rm(folder, { recursive: true });
  }
});
