import { randomBytes } from "node:crypto";
import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test, vi } from "vitest";
import { sharedCluster, startCluster } from "../test/cluster/cluster.ts";
import { loadAgentConfig } from "./config/load.ts";
import { keepLines, startAgent, testAddress } from "./fixtures/agent.ts";
import { runAgent } from "./main.ts";

const patiently = { timeout: 20_000, interval: 50 };

function someHost(): string {
  return `mac-${randomBytes(4).toString("hex")}`;
}

test("an agent that may register makes its Host, keeps its Lease and says what the machine is", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  await using agent = await startAgent({ kubeconfig, hostName, register: true });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  await kubectl(["wait", "--for=condition=Ready", `host/${hostName}`, "--timeout=10s"]);
  const host = JSON.parse(await kubectl(["get", "host", hostName, "-o", "json"]));
  expect(host.spec.addresses).toEqual([testAddress()]);
  expect(host.status.addresses).toEqual([testAddress()]);
  expect(host.status.info).toMatchObject({ os: "linux", memoryBytes: expect.any(Number) });
  expect(host.status.memory.totalBytes).toBeGreaterThan(0);
  const lease = JSON.parse(
    await kubectl(["get", "lease", "-n", "metalbridge-hosts", hostName, "-o", "json"]),
  );
  expect(lease.spec.holderIdentity).toMatch(new RegExp(`^${hostName}_`));
  expect(await agent.ask("/healthz")).toBe("200 ok\n");
  expect(await agent.ask("/metrics")).toMatch(/^metalbridge_agent_lease_held\{host="mac-[0-9a-f]+"\} 1$/m);
  expect(await agent.ask("/nothing")).toMatch(/^404/);
  // Whoever deletes it means it: it is not made again.
  await kubectl(["delete", "host", hostName]);
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 HostNotRegistered/),
    patiently,
  );
});

test("without the right to register it waits for the Host, saying so, and begins when it is there", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  await using agent = await startAgent({ kubeconfig, hostName });
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 HostNotRegistered: .*--register/),
    patiently,
  );
  const spec = JSON.stringify({ addresses: [testAddress()] });
  await kubectl(["apply", "-f", "-"], {
    input: `{"apiVersion":"metalbridge.dev/v1alpha1","kind":"Host","metadata":{"name":"${hostName}"},"spec":${spec}}`,
  });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  await kubectl(["wait", "--for=condition=Ready", `host/${hostName}`, "--timeout=10s"]);
  await kubectl(["delete", "host", hostName]);
});

test("an address that the Host does not allow is a condition that names both", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  await kubectl(["apply", "-f", "-"], {
    input: `{"apiVersion":"metalbridge.dev/v1alpha1","kind":"Host","metadata":{"name":"${hostName}"},"spec":{"addresses":["192.0.2.7"]}}`,
  });
  await using agent = await startAgent({ kubeconfig, hostName });
  await vi.waitFor(async () => {
    const host = JSON.parse(await kubectl(["get", "host", hostName, "-o", "json"]));
    const ready = host.status?.conditions?.find((each: { type: string }) => each.type === "Ready");
    expect(ready).toMatchObject({ status: "False", reason: "AddressNotRegistered" });
    expect(ready.message).toContain("192.0.2.7");
  }, patiently);
  expect(await agent.ask("/healthz")).toBe("200 ok\n");
  await kubectl(["delete", "host", hostName]);
});

test("two agents with one name: the second waits and says who holds it; a restart of the first does not wait", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  const first = await startAgent({ kubeconfig, hostName, register: true, keepState: true });
  await vi.waitFor(async () => expect(await first.ask("/readyz")).toBe("200 ok\n"), patiently);
  await using second = await startAgent({ kubeconfig, hostName, register: true });
  await vi.waitFor(
    async () => expect(await second.ask("/readyz")).toMatch(/^503 HostNameTaken: /),
    patiently,
  );
  expect(await second.ask("/healthz")).toBe("200 ok\n");
  expect(await first.ask("/readyz")).toBe("200 ok\n");
  await first.stop();
  await using again = await startAgent({ kubeconfig, hostName, register: true, stateDir: first.stateDir });
  const startedMs = performance.now();
  await vi.waitFor(async () => expect(await again.ask("/readyz")).toBe("200 ok\n"), patiently);
  expect(performance.now() - startedMs).toBeLessThan(20_000);
  await kubectl(["delete", "host", hostName]);
});

test("two agents on one state folder: the second does not begin and names the first", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  await using first = await startAgent({ kubeconfig, hostName, register: true });
  await expect(startAgent({ kubeconfig, hostName, stateDir: first.stateDir })).rejects.toMatchObject({
    code: "StateDirInUse",
    message: expect.stringContaining(`pid ${process.pid}`),
  });
  await kubectl(["delete", "host", hostName, "--ignore-not-found"]);
});

test("CRDs that are not installed yet are waited for", async () => {
  await using cluster = await startCluster({ crds: false });
  await using agent = await startAgent({
    kubeconfig: cluster.kubeconfig,
    hostName: someHost(),
    register: true,
  });
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 .*CrdsNotInstalled/s),
    patiently,
  );
  await cluster.installCrds();
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), {
    timeout: 50_000,
    interval: 100,
  });
});

test("a kubeconfig that is missing, broken or points nowhere is waited for and named", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const folder = await mkdtemp(join(tmpdir(), "mb-kubeconfig-"));
  const path = join(folder, "config");
  const hostName = someHost();
  await using agent = await startAgent({ kubeconfig: path, hostName, register: true });
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 KubeconfigUnreadable: .*config/),
    patiently,
  );
  await writeFile(path, "{ not yaml");
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 KubeconfigInvalid/),
    patiently,
  );
  await copyFile(kubeconfig, path);
  await chmod(path, 0o600);
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), {
    timeout: 30_000,
    interval: 100,
  });
  await kubectl(["delete", "host", hostName]);
  await rm(folder, { recursive: true });
});

test("a dry run prints the plan and changes nothing, neither in the cluster nor on disk", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  const folder = await mkdtemp(join(tmpdir(), "mb-dry-"));
  const dryRun = async (stateDir: string) => {
    const printed: string[] = [];
    const flags = {
      kubeconfig,
      hostName,
      stateDir,
      dryRun: true,
      register: true,
      logLevel: "silent" as const,
    };
    const config = loadAgentConfig({ flags, env: {} });
    const ports = { signal: new AbortController().signal, log: keepLines([]) };
    await runAgent(config, { ...ports, print: (text) => printed.push(text) });
    return printed;
  };
  const nothing = [`nothing to do: no replica names ${hostName}`];
  expect(await dryRun(join(folder, "none"))).toEqual(nothing);
  expect(await readdir(folder)).toEqual([]);
  // Beside an agent that is writing: what is half written is that agent's.
  const used = join(folder, "used");
  const halfWritten = [
    "models/refs/a.json.1.tmp",
    "models/partial/b.tmp",
    "models/views/c.tmp",
    "desired/d.tmp",
  ];
  for (const name of [...halfWritten, "engines/e/record.json"]) {
    await mkdir(dirname(join(used, name)), { recursive: true });
    await writeFile(join(used, name), "{");
  }
  const before = await readdir(used, { recursive: true });
  expect(await dryRun(used)).toEqual([expect.stringContaining("forgetReplica")]);
  expect(await readdir(used, { recursive: true })).toEqual(before);
  await expect(dryRun(join(used, "engines/e/record.json"))).rejects.toMatchObject({
    code: "StateDirUnusable",
  });
  await expect(kubectl(["get", "host", hostName])).rejects.toThrow(/not found/);
  await rm(folder, { recursive: true });
});
