import { randomBytes } from "node:crypto";
import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { MetalbridgeError } from "../src/api/errors.ts";
import { giveIdentity } from "../test/bed/identity.ts";
import { sharedCluster, startCluster } from "../test/cluster/cluster.ts";
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
  readonly note: string;
  readonly regarding: object;
}

/** Events about the Host with this reason, once there are any. */
async function eventsOn(hostName: string, reason: string): Promise<readonly HostEvent[]> {
  const { kubectl } = sharedCluster();
  const selector = `regarding.name=${hostName},reason=${reason}`;
  return vi.waitFor(async () => {
    const text = await kubectl([
      ...["get", "events.events.k8s.io", "-n", "default", "-o", "json"],
      ...["--field-selector", selector],
    ]);
    const { items } = JSON.parse(text);
    expect(items.length).toBeGreaterThan(0);
    return items;
  }, patiently);
}

test("an agent that may register creates its Host, keeps its Lease and reports the machine", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  await using agent = await startAgent({ kubeconfig, hostName, register: true });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  await kubectl(["wait", "--for=condition=Ready", `host/${hostName}`, "--timeout=60s"]);
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

test("an agent without permission to register reports that it waits for the Host, and starts once it exists", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  await using agent = await startAgent({ kubeconfig, hostName });
  await vi.waitFor(
    async () => expect(await agent.ask("/readyz")).toMatch(/^503 HostNotRegistered: .*metalbridge host add/),
    patiently,
  );
  const spec = JSON.stringify({ addresses: [testAddress()] });
  await kubectl(["apply", "-f", "-"], {
    input: `{"apiVersion":"metalbridge.dev/v1alpha1","kind":"Host","metadata":{"name":"${hostName}"},"spec":${spec}}`,
  });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  await kubectl(["wait", "--for=condition=Ready", `host/${hostName}`, "--timeout=60s"]);
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
  await kubectl(["delete", "host", hostName]);
});

test("a host without an engine is not Ready, as its condition, an Event and /readyz report", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
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
  await vi.waitFor(async () => {
    const { conditions = [] } = JSON.parse(await kubectl(["get", "host", hostName, "-o", "json"])).status;
    const ready = conditions.find(({ type }: { type: string }) => type === "Ready");
    expect(ready).toMatchObject({ status: "False", reason: code });
  }, patiently);
  expect(await eventsOn(hostName, code)).toMatchObject([{ type: "Warning" }]);
  await kubectl(["delete", "host", hostName]);
});

test("the second of two agents with one name waits and reports the holder; a restart of the first does not wait", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  const first = await startAgent({ kubeconfig, hostName, register: true, keepState: true });
  await vi.waitFor(async () => expect(await first.ask("/readyz")).toBe("200 ok\n"), patiently);
  await kubectl([
    ...["wait", "host", hostName, "--timeout=60s"],
    `--for=jsonpath={.status.addresses[0]}=${testAddress()}`,
  ]);
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
  await kubectl(["delete", "host", hostName]);
});

test("the second of two agents on one state folder does not start and names the first", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = someHost();
  await using first = await startAgent({ kubeconfig, hostName, register: true });
  await expect(startAgent({ kubeconfig, hostName, stateDir: first.stateDir })).rejects.toMatchObject({
    code: "StateDirInUse",
    message: expect.stringContaining(`pid ${process.pid}`),
  });
  await kubectl(["delete", "host", hostName, "--ignore-not-found", "--wait=false"]);
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
    timeout: 60_000,
    interval: 100,
  });
  await kubectl(["delete", "host", hostName]);
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
    const host = { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: hostName } };
    const input = JSON.stringify({ ...host, spec: { addresses: [testAddress()] } });
    await cluster.kubectl(["apply", "-f", "-"], { input });
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
    await cluster.kubectl(["delete", "host", hostName]);
  },
);

test("a dry run prints the plan and changes nothing, neither in the cluster nor on disk", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
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
  await expect(kubectl(["get", "host", hostName])).rejects.toThrow(/not found/);
  await rm(folder, { recursive: true });
});
