import { execFileSync, spawnSync } from "node:child_process";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { openNetwork, whyNoNetwork } from "./network.ts";

const why = whyNoNetwork();
const module = pathToFileURL(path.join(import.meta.dirname, "network.ts")).href;
const namespaces = () => execFileSync("ip", ["netns", "list"], { encoding: "utf8" });
const addresses = () =>
  Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address));

test.skipIf(why !== undefined)(`networks share no address, and leave nothing ${why ?? ""}`, async () => {
  const networks = await Promise.all(["a", "b", "c"].map((name) => openNetwork([name])));
  const [gateways, spaces] = [
    networks.map(({ gateway }) => gateway),
    networks.map(({ station }, index) => station(["a", "b", "c"][index] ?? "").namespace),
  ];
  expect(new Set(gateways).size).toBe(3);
  for (const gateway of gateways) expect(addresses()).toContain(gateway);
  for (const space of spaces) expect(namespaces()).toContain(space);
  await Promise.all(networks.map((network) => network[Symbol.asyncDispose]()));
  for (const gateway of gateways) expect(addresses()).not.toContain(gateway);
  for (const space of spaces) expect(namespaces()).not.toContain(space);
});

test.skipIf(why !== undefined)(
  `a run in a PID namespace of its own leaves networks of others alone ${why ?? ""}`,
  async () => {
    await using network = await openNetwork(["a"]);
    const script = `
      const { openNetwork } = await import(${JSON.stringify(module)});
      await (await openNetwork([]))[Symbol.asyncDispose]();`;
    const inside = ["--pid", "--fork", "--mount-proc", process.execPath, "--input-type=module", "-e", script];
    const { status, stderr } = spawnSync("unshare", inside, { encoding: "utf8" });
    expect(status, stderr).toBe(0);
    expect(addresses()).toContain(network.gateway);
    expect(namespaces()).toContain(network.station("a").namespace);
  },
);

test.skipIf(why !== undefined)(`the next network removes what a killed run left ${why ?? ""}`, async () => {
  const script = `
    const { openNetwork } = await import(${JSON.stringify(module)});
    const { station, gateway } = await openNetwork(["a"]);
    console.log(station("a").namespace, gateway);
    setImmediate(() => process.kill(process.pid, "SIGKILL"));`;
  const args = ["--input-type=module", "-e", script];
  const { stdout, signal } = spawnSync(process.execPath, args, { encoding: "utf8" });
  const [namespace = "?", gateway = "?"] = stdout.trim().split(" ");
  // It was there, and nothing of that process removed it; another file's network may, at any moment.
  expect([signal, namespace]).toEqual(["SIGKILL", expect.stringMatching(/^mbtest-\d+-\d+-a$/)]);
  await using network = await openNetwork(["a"]);
  expect(namespaces()).not.toContain(namespace);
  if (network.gateway !== gateway) expect(addresses()).not.toContain(gateway);
});
