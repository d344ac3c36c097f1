import { randomBytes } from "node:crypto";
import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { MetalbridgeError } from "../src/api/errors.ts";
import type { Host } from "../src/api/host.ts";
import { giveIdentity } from "../test/bed/identity.ts";
import { sharedCluster, startCluster, type TestCluster } from "../test/cluster/cluster.ts";
import { keepLines } from "../test/fixtures/log-lines.ts";
import { program } from "../test/fixtures/started-llama-server.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { loadAgentConfig } from "./config/load.ts";
import type { AgentSettings } from "./config/schema.ts";
import { startAgent, testAddress } from "./fixtures/agent.ts";
import { runAgent } from "./main.ts";

const patiently = { timeout: 60_000, interval: 50 };

function someHost(): string {
  return `mac-${randomBytes(4).toString("hex")}`;
}

interface HostEvent {
  readonly type: string;
  readonly reason: string;
  readonly note: string;
  readonly regarding: { readonly name: string };
}

/** Events about the Host with this reason, once there are any. */
async function eventsOn(hostName: string, reason: string): Promise<readonly HostEvent[]> {
  return sharedCluster().objects.until("default", "events.events.k8s.io", (events: readonly HostEvent[]) => {
    const found = events.filter((one) => one.regarding.name === hostName && one.reason === reason);
    expect(found.length).toBeGreaterThan(0);
    return found;
  });
}

function untilReady({ objects }: TestCluster, hostName: string): Promise<Host> {
  return objects.until("", `hosts/${hostName}`, (host) => {
    expect(readyOf(host)?.status).toBe("True");
    return host;
  });
}

function readyOf(host: Host | undefined) {
  return host?.status?.conditions?.find(({ type }) => type === "Ready");
}

function newHost(name: string, addresses: readonly string[]): object {
  return { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name }, spec: { addresses } };
}

test("an agent that may register creates its Host, keeps its Lease and reports the machine", async () => {
  const cluster = sharedCluster();
  const { kubeconfig, objects } = cluster;
  const hostName = someHost();
  await using agent = await startAgent({ kubeconfig, hostName, register: true });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  const host = await untilReady(cluster, hostName);
  expect(host.spec.addresses).toEqual([testAddress()]);
  expect(host.status?.addresses).toEqual([testAddress()]);
  expect(host.status?.info).toMatchObject({ os: "linux", memoryBytes: expect.any(Number) });
  expect(host.status?.memory?.totalBytes).toBeGreaterThan(0);
  const lease = await cluster.objects.get("metalbridge-hosts", `leases/${hostName}`);
  expect(lease.spec.holderIdentity).toMatch(new RegExp(`^${hostName}_`));
  expect(await agent.ask("/healthz")).toBe("200 ok\n");
  expect(await agent.ask("/metrics")).toMatch(/^metalbridge_agent_lease_held\{host="mac-[0-9a-f]+"\} 1$/m);
  expect(await agent.ask("/nothing")).toMatch(/^404/);
  // Whoever deletes it means it: it is not made again.
  await objects.remove("", `hosts/${hostName}`);
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 HostNotRegistered/),
    patiently,
  );
});

test("an agent without permission to register reports that it waits for the Host, and starts once it exists", async () => {
  const cluster = sharedCluster();
  const { kubeconfig, objects } = cluster;
  const hostName = someHost();
  await using agent = await startAgent({ kubeconfig, hostName });
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 HostNotRegistered: .*metalbridge host add/),
    patiently,
  );
  await objects.apply(newHost(hostName, [testAddress()]));
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  await untilReady(cluster, hostName);
  await objects.remove("", `hosts/${hostName}`);
});

test("an address that the Host does not allow is a condition that names both", async () => {
  const { kubeconfig, objects } = sharedCluster();
  const hostName = someHost();
  await objects.apply(newHost(hostName, ["192.0.2.7"]));
  await using agent = await startAgent({ kubeconfig, hostName });
  await objects.until("", `hosts/${hostName}`, (host) => {
    expect(readyOf(host)).toMatchObject({ status: "False", reason: "AddressNotRegistered" });
    expect(readyOf(host)?.message).toContain("192.0.2.7");
  });
  expect(await agent.ask("/healthz")).toBe("200 ok\n");
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 AddressNotRegistered: .*192\.0\.2\.7/),
    patiently,
  );
  const [event] = await eventsOn(hostName, "AddressNotRegistered");
  expect(event).toMatchObject({ type: "Warning", note: expect.stringContaining("192.0.2.7") });
  await vi.waitFor(
    () => expect(agent.lines.map(({ data }) => data.code)).toContain("AddressNotRegistered"),
    patiently,
  );
  await objects.remove("", `hosts/${hostName}`);
});

test("a host without an engine is not Ready, as its condition, an Event and /readyz report", async () => {
  const { kubeconfig, objects } = sharedCluster();
  const hostName = someHost();
  const folder = await mkdtemp(join(tmpdir(), "mb-no-engine-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const broken = join(folder, "llama-server");
  await writeFile(broken, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  await using agent = await startAgent({ kubeconfig, hostName, register: true, llamaServer: [broken] });
  const code = await vi.waitFor(async () => {
    const [, found] = /^503 (Runtime\w+): /.exec(await agent.ask("/readyz")) ?? [];
    if (found === undefined) throw new Error("no engine is missed yet");
    return found;
  }, patiently);
  await objects.until("", `hosts/${hostName}`, (host) =>
    expect(readyOf(host)).toMatchObject({ status: "False", reason: code }),
  );
  expect(await eventsOn(hostName, code)).toMatchObject([{ type: "Warning" }]);
  await objects.remove("", `hosts/${hostName}`);
});

test("the second of two agents with one name waits and reports the holder; a restart of the first does not wait", async () => {
  const { kubeconfig, objects } = sharedCluster();
  const hostName = someHost();
  const first = await startAgent({ kubeconfig, hostName, register: true, keepState: true });
  await vi.waitFor(async () => expect(await first.ask("/readyz")).toBe("200 ok\n"), patiently);
  await objects.until("", `hosts/${hostName}`, (host) =>
    expect(host?.status?.addresses).toEqual([testAddress()]),
  );
  await using second = await startAgent({ kubeconfig, hostName, register: true });
  await vi.waitFor(
    async () => expect(await second.ask("/readyz")).toMatch(/^503 HostNameTaken: /),
    patiently,
  );
  expect(await second.ask("/healthz")).toBe("200 ok\n");
  expect(await first.ask("/readyz")).toBe("200 ok\n");
  const [event] = await eventsOn(hostName, "HostNameTaken");
  expect(event).toMatchObject({ type: "Warning", regarding: { kind: "Host", name: hostName } });
  expect(event?.note).toContain(`on ${hostname()} (${testAddress()})`);
  expect(event?.note).toContain(`serving on ${testAddress()}`);
  await first.stop();
  await using again = await startAgent({ kubeconfig, hostName, register: true, stateDir: first.stateDir });
  await vi.waitFor(async () => expect(await again.ask("/readyz")).toBe("200 ok\n"), patiently);
  expect(again.lines.map(({ data }) => data.code)).not.toContain("HostNameTaken");
  await objects.remove("", `hosts/${hostName}`);
});

test("the second of two agents on one state folder does not start and names the first", async () => {
  const { kubeconfig, objects } = sharedCluster();
  const hostName = someHost();
  await using first = await startAgent({ kubeconfig, hostName, register: true });
  await expect(startAgent({ kubeconfig, hostName, stateDir: first.stateDir })).rejects.toMatchObject({
    code: "StateDirInUse",
    message: expect.stringContaining(`pid ${process.pid}`),
  });
  await objects.remove("", `hosts/${hostName}`).catch(() => undefined);
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
    timeout: 60_000,
    interval: 100,
  });
});

test("a kubeconfig that is missing, broken or points nowhere is waited for and named", async () => {
  const { kubeconfig, objects } = sharedCluster();
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
    timeout: 60_000,
    interval: 100,
  });
  await objects.remove("", `hosts/${hostName}`);
  await rm(folder, { recursive: true });
});

/** The checks and the plan that `--dry-run` prints, and the code it fails with. */
async function dryRun(settings: AgentSettings) {
  const printed: string[] = [];
  const addresses = [testAddress()];
  const flags = { addresses, dryRun: true, logLevel: "silent" as const, ...settings };
  const config = loadAgentConfig({ flags, env: {} });
  const ports = { signal: new AbortController().signal, log: keepLines([]) };
  const code = await runAgent(config, { ...ports, print: (text) => printed.push(text) }).then(
    () => undefined,
    (error: MetalbridgeError) => error.code,
  );
  const [checks = "", ...plan] = printed;
  return { checks, plan, code };
}

test("a dry run names what a host lacks before it can serve, and fails", async () => {
  const { kubeconfig } = sharedCluster();
  await using folder = await temporaryFolder();
  const hostName = someHost();
  const lacking = { kubeconfig, hostName, stateDir: folder.path, addresses: ["192.0.2.77"] };
  const { checks, code } = await dryRun({ ...lacking, llamaServer: ["/nonexistent/llama-server"] });
  expect(checks).toMatch(new RegExp(`^FAILED +host +HostNotRegistered: there is no Host ${hostName}`, "m"));
  expect(checks).toMatch(/^FAILED +address +AddressUnknown: .*192\.0\.2\.77/m);
  expect(checks).toMatch(/^ok +rights /m);
  expect(code).toBe("PreflightFailed");
});

test.skipIf(program === undefined)(
  "a dry run on a host with everything passes with an agent's rights",
  async () => {
    const cluster = sharedCluster();
    await using folder = await temporaryFolder();
    const hostName = someHost();
    const kubeconfig = join(folder.path, "kubeconfig");
    await giveIdentity(cluster, hostName, kubeconfig);
    await cluster.objects.apply(newHost(hostName, [testAddress()]));
    const stateDir = join(folder.path, "state");
    const { checks, code } = await dryRun({ kubeconfig, hostName, stateDir, llamaServer: [program ?? ""] });
    expect(checks.split("\n").map((line) => line.slice(0, 16).trim())).toEqual([
      "ok      route",
      "ok      clock",
      "ok      host",
      "ok      address",
      "ok      ports",
      "ok      engine",
      "ok      rights",
    ]);
    expect(code).toBeUndefined();
    await cluster.objects.remove("", `hosts/${hostName}`);
  },
);

test("a dry run prints the plan and changes nothing, neither in the cluster nor on disk", async () => {
  const { kubeconfig, objects } = sharedCluster();
  const hostName = someHost();
  const folder = await mkdtemp(join(tmpdir(), "mb-dry-"));
  const run = (stateDir: string) => dryRun({ kubeconfig, hostName, stateDir, register: true });
  const { checks, plan } = await run(join(folder, "none"));
  expect(checks).toContain(`Host ${hostName} does not exist; --register will create it`);
  expect(plan).toEqual([`nothing to do: no replica is assigned to ${hostName}`]);
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
  expect((await run(used)).plan).toEqual([expect.stringContaining("forgetReplica")]);
  expect(await readdir(used, { recursive: true })).toEqual(before);
  expect((await run(join(used, "engines/e/record.json"))).code).toBe("StateDirUnusable");
  await expect(objects.get("", `hosts/${hostName}`)).rejects.toThrow(/not found/);
  await rm(folder, { recursive: true });
});
