/** A whole agent that begins before the network is right. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { sharedCluster } from "../test/cluster/cluster.ts";
import { startAgent } from "./fixtures/agent.ts";
import { routedAddress } from "./host/routed-address.ts";

const patiently = { timeout: 60_000, interval: 50 };
/** Longer than a label may be: no machine can look it up. */
const NOWHERE = `https://${"a".repeat(64)}.invalid:6443`;
const serverLine = /^( *"?server"?: *).*?(,?)$/m;

const route = await routedAddress("https://127.0.0.1");

test.skipIf(route === undefined)(
  "a Host is made with the address of the time when it is made, not of the agent's start (needs a route)",
  async () => {
    const { kubeconfig, objects } = sharedCluster();
    const hostName = `mac-${randomBytes(4).toString("hex")}`;
    const folder = await mkdtemp(join(tmpdir(), "mb-attach-"));
    onTestFinished(async () => {
      await objects.remove("", `hosts/${hostName}`).catch(() => undefined);
      await rm(folder, { recursive: true });
    });
    const path = join(folder, "config");
    const right = await readFile(kubeconfig, "utf8");
    await writeFile(path, right.replace(serverLine, `$1"${NOWHERE}"$2`), { mode: 0o600 });
    await using agent = await startAgent({ kubeconfig: path, hostName, register: true, addresses: [] });
    await vi.waitFor(async () => expect(await agent.ask("/readyz")).toContain(".invalid"), patiently);
    await writeFile(`${path}.new`, right, { mode: 0o600 });
    await rename(`${path}.new`, path);
    await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
    const host = await objects.get("", `hosts/${hostName}`);
    expect(host.spec.addresses).toEqual([route]);
  },
);
