import { execFileSync, spawnSync } from "node:child_process";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { createNamespacePair, whyNotHere } from "./network-namespace.ts";

const why = whyNotHere();
const namespaces = () => execFileSync("ip", ["netns", "list"], { encoding: "utf8" });
const addresses = () =>
  Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address));

test.skipIf(why !== undefined)(`pairs do not share addresses, and leave nothing ${why ?? ""}`, async () => {
  const pairs = await Promise.all([createNamespacePair(), createNamespacePair(), createNamespacePair()]);
  expect(new Set(pairs.map(({ hostAddress }) => hostAddress)).size).toBe(3);
  for (const { hostAddress } of pairs) expect(addresses()).toContain(hostAddress);
  await Promise.all(pairs.map(({ remove }) => remove()));
  for (const { name, hostAddress } of pairs) {
    expect(namespaces()).not.toContain(name);
    expect(addresses()).not.toContain(hostAddress);
  }
});

test.skipIf(why !== undefined)(`what a killed run left is removed by the next ${why ?? ""}`, async () => {
  const module = pathToFileURL(path.join(import.meta.dirname, "network-namespace.ts")).href;
  const script = `
    const { createNamespacePair } = await import(${JSON.stringify(module)});
    const { name, hostAddress } = await createNamespacePair();
    console.log(name, hostAddress);
    setImmediate(() => process.kill(process.pid, "SIGKILL"));`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  const [name = "?", hostAddress = "?"] = stdout.trim().split(" ");
  expect(namespaces()).toContain(name);
  const pair = await createNamespacePair();
  try {
    expect(namespaces()).not.toContain(name);
    if (pair.hostAddress !== hostAddress) expect(addresses()).not.toContain(hostAddress);
  } finally {
    await pair.remove();
  }
});
