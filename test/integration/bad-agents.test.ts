/** Faulty agents beside a good one: engines, disks, addresses, names, credentials. Each reports what to do, harms none. */
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { HOSTS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { startNodeNetwork, whyNoNodeNetwork } from "../bed/node-network.ts";
import { startPart } from "../bed/part.ts";
import { servicesOf } from "../bed/services.ts";
import { startFleet } from "../bed/test-fleet.ts";
import { until } from "../bed/until.ts";
import { startCluster } from "../cluster/cluster.ts";
import { writeFaultyEngine } from "../fixtures/faulty-engines.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type BadFleet, type ExtraAgent, startBadFleet } from "./bad-fleet.ts";

const MINUTE = 60_000;
describeUnless(whyNoNodeNetwork(), "a farm with agents in trouble", () => {
  let bad: BadFleet;

  beforeAll(async () => {
    bad = await startBadFleet();
  });
  afterAll(() => bad?.[Symbol.asyncDispose](), MINUTE);
  afterEach(() => bad.expectUnharmed());

  const source = () => path.join(bad.farm.modelsDir, "good.gguf");

  /** Until the one replica of a service is in this phase for this reason, with this advice. */
  const untilReplica = (name: string, phase: string, reason: string, advice: string) =>
    until(async () => {
      const [replica] = await bad.replicasOf(name);
      expect(replica?.status).toMatchObject({ phase, reason, message: expect.stringContaining(advice) });
    });

  const untilLogged = (agent: ExtraAgent, text: string) => until(() => expect(agent.log()).toContain(text));

  const untilHostReady = (name: string, reason: string) =>
    until(
      async () => {
        const { status } = await bad.get(HOSTS, name);
        const ready = status?.conditions?.find(({ type }) => type === "Ready");
        expect(ready).toMatchObject({ reason });
        return ready;
      },
      { everyMs: 250 },
    );

  // First: the hosts of the other tests fall silent when those finish, and hosts silent together are not marked lost.
  it("takes back its place in the Service when it comes back from a silence", async () => {
    const agent = await bad.agent("silent");
    await bad.apply(model("silent", source()), service("silent", "silent"));
    await bad.services.untilReady("silent");
    const { pid } = (await bad.services.replicaOf("silent")).status;
    process.kill(agent.pid, "SIGSTOP");
    try {
      await until(async () => expect(await bad.services.sliceIsReady("silent")).toBe(false));
      await until(
        async () => {
          const { status } = await bad.get(INFERENCE_SERVICES, "silent");
          expect(status).toMatchObject({ reason: "HostUnreachable", readyReplicas: 0 });
        },
        { everyMs: 250 },
      );
    } finally {
      process.kill(agent.pid, "SIGCONT");
    }
    await until(async () => expect(await bad.services.sliceIsReady("silent")).toBe(true));
    await bad.services.untilReady("silent");
    expect((await bad.services.replicaOf("silent")).status).toMatchObject({ pid, restarts: 0 });
    expect((await bad.services.chat("silent", { max_tokens: 2 })).choices).toHaveLength(1);
  });

  it("names the fault of an engine that crashes, hangs, is too old, or is not there", async () => {
    const at = (file: string) => path.join(bad.dir, file);
    const help = fileURLToPath(
      new URL("../../src/engines/llamacpp/fixtures/help-b5000-style.txt", import.meta.url),
    );
    writeFileSync(at("old-server"), `#!/bin/sh\ncat '${help}'\n`);
    chmodSync(at("old-server"), 0o755);
    const agents = await Promise.all([
      bad.agent("crashes", {
        llamaServer: writeFaultyEngine(at("crashing"), "crashes-at-once", bad.realEngine),
      }),
      bad.agent("hangs", { llamaServer: writeFaultyEngine(at("hanging"), "never-ready", bad.realEngine) }),
      bad.agent("old", { llamaServer: at("old-server") }),
      bad.agent("none", { llamaServer: at("not-there") }),
    ]);
    const hurried = { probeOverrides: { startup: { periodSeconds: 1, failureThreshold: 2 } } };
    await bad.apply(
      ...["crashes", "hangs", "old", "none"].flatMap((name) => [
        model(name, source()),
        service(name, name, hurried),
      ]),
    );
    const untilUnplaced = (name: string, advice: string) =>
      until(
        async () => {
          const { status } = await bad.get(INFERENCE_SERVICES, name);
          expect(status).toMatchObject({ phase: "WaitingForCapacity", reason: "HostRuntimeMissing" });
          expect(status?.message).toContain(advice);
          expect(status?.placement?.misses?.[0]).toMatchObject({ host: name });
        },
        { everyMs: 250 },
      );
    const untilBackoff = (name: string, reason: string) =>
      until(async () => {
        const [replica] = await bad.replicasOf(name);
        expect(replica?.status).toMatchObject({ phase: "Backoff", reason });
        expect(replica?.status?.restarts).toBeGreaterThan(0);
        expect(replica?.status?.message).toMatch(/; \S/);
      });
    await Promise.all([
      untilBackoff("crashes", "EngineCrashed"),
      untilBackoff("hangs", "EngineNeverHealthy"),
      untilUnplaced("old", "brew upgrade llama.cpp"),
      untilUnplaced("none", "brew install llama.cpp"),
    ]);
    const [crashed] = await bad.replicasOf("crashes");
    expect(crashed?.status?.lastExit?.logTail).toContain("something broke");
    await bad.farm.kubectl(["delete", "isvc/crashes", "isvc/hangs", "--timeout=60s"]);
    await Promise.all(agents.map((agent) => agent.kill("SIGTERM")));
  });

  it("waits for a port that a stranger has, for an address that the Host allows, and for room on the disk", async () => {
    const stranger = createServer();
    await new Promise<void>((listening) => stranger.listen(23_500, "0.0.0.0", listening));
    const disk = path.join(bad.dir, "full", "models");
    mkdirSync(disk, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]);
    const host = { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: "elsewhere" } };
    await bad.apply({ ...host, spec: { addresses: ["192.0.2.7"] } });
    const agents = await Promise.all([
      bad.agent("crowded", { portRange: "23500-23500" }),
      bad.agent("elsewhere"),
      bad.agent("full"),
    ]);
    try {
      await bad.apply(
        ...[model("crowded", source()), service("crowded", "crowded")],
        ...[model("elsewhere", source()), service("elsewhere", "elsewhere")],
        ...[model("small", `${bad.origin.url}/good.gguf`), service("small", "full")],
        ...[model("large", `${bad.origin.url}/large.gguf`), service("large", "full")],
      );
      await Promise.all([
        untilReplica("crowded", "Waiting", "PortsExhausted", "port").then(async () => {
          stranger.close();
          await bad.services.untilReady("crowded");
        }),
        untilHostReady("elsewhere", "AddressNotRegistered").then(async (ready) => {
          expect(ready?.message).toContain("192.0.2.7");
          expect(ready?.message).toContain("kubectl edit host");
          await bad.apply({ ...host, spec: { addresses: [bad.network.hostAddress] } });
          await bad.services.untilReady("elsewhere");
        }),
        untilReplica("large", "Waiting", "DiskFull", "free space"),
        bad.services.untilReady("small"),
      ]);
      const [small] = await bad.replicasOf("small");
      expect(small?.status).toMatchObject({ phase: "Ready", restarts: 0 });
      for (const name of ["crowded", "elsewhere", "small"])
        expect((await bad.services.chat(name, { max_tokens: 2 })).choices).toHaveLength(1);
      const names = ["crowded", "elsewhere", "small", "large"].map((name) => `isvc/${name}`);
      await bad.farm.kubectl(["delete", ...names, "--timeout=60s"], { timeoutMs: 70_000 });
      await Promise.all(agents.map((agent) => agent.kill("SIGTERM")));
    } finally {
      stranger.close();
      execFileSync("umount", ["--lazy", disk]);
    }
  });

  it(
    "refuses a second agent on a state folder, and makes one of the same host name wait",
    async () => {
      const { hostName, stateDir } = bad.farm;
      const same = await bad.agent("same-folder", { stateDir });
      const named = await bad.agent("same-name", { hostName });
      await until(() => expect(same.exitCode()).toBe(1));
      expect(same.log()).toContain("StateDirInUse");
      expect(same.log()).toContain("--state-dir");
      await untilLogged(named, "HostNameTaken");
      expect(named.log()).toContain("--host-name");
      expect(named.isRunning()).toBe(true);
      await bad.farm.kubectl(["wait", `mbhost/${hostName}`, "--for=condition=Ready", "--timeout=60s"]);
      await named.kill("SIGTERM");
    },
    5 * MINUTE,
  );

  it("waits out a kubeconfig that is missing, leads nowhere or has expired, and works once it is right", async () => {
    const names = ["missing", "nowhere", "expired"] as const;
    const right = await Promise.all(names.map((name) => bad.farm.join(name)));
    const text = readFileSync(right[0] ?? "", "utf8");
    const at = (name: string) => path.join(bad.dir, `${name}.wrong.kubeconfig`);
    writeFileSync(at("nowhere"), text.replace(`:${bad.cluster.port}`, ":1"));
    writeFileSync(at("expired"), text.replace(/token: .*/, "token: no-longer-valid"));
    const start = (name: string) => bad.agent(name, { kubeconfig: at(name) });
    const [missing, nowhere, expired] = await Promise.all([
      start("missing"),
      start("nowhere"),
      start("expired"),
    ]);
    await Promise.all([
      untilLogged(missing, "KubeconfigUnreadable"),
      untilLogged(nowhere, "ApiUnreachable"),
      untilLogged(expired, "ApiUnauthorized"),
    ]);
    for (const agent of [missing, nowhere, expired]) expect(agent.isRunning()).toBe(true);
    // A controller has no engines to look after: its Deployment starts it again.
    const controller = startPart(
      ["controller", "--kubeconfig", at("nothing-here"), "--health-port", "0"],
      path.join(bad.dir, "second-controller.log"),
    );
    await until(() => expect(controller.exitCode()).toBe(1));
    expect(controller.log()).toContain("KubeconfigUnreadable");
    for (const [index, name] of names.entries()) copyFileSync(right[index] ?? "", at(name));
    await Promise.all(names.map((name) => untilHostReady(name, "AgentReady")));
    await Promise.all([missing, nowhere, expired].map((agent) => agent.kill("SIGTERM")));
  });
});

describeUnless(whyNoNodeNetwork(), "agent and controller before the CRDs", () => {
  it("report that they wait for them, and work once they are installed", async () => {
    await using cluster = await startCluster({ crds: false, controllerManager: true });
    await using network = await startNodeNetwork(cluster);
    // No host can be added to a cluster without CRDs: its agent registers it later.
    const { kubeconfig } = cluster;
    await using farm = await startFleet({
      kubeconfig,
      controllerKubeconfig: kubeconfig,
      address: network.hostAddress,
      agents: [{ kubeconfig, args: ["--register"] }],
    });
    await writeTinyGguf(path.join(farm.modelsDir, "good.gguf"));
    await until(() => expect(farm.agent().log()).toContain("CrdsNotInstalled"));
    await until(() => expect(farm.controller().log()).toContain("CrdsNotInstalled"));
    expect([farm.agent().isRunning(), farm.controller().isRunning()]).toEqual([true, true]);
    await cluster.installCrds();
    const services = servicesOf(farm, network);
    await services.applyService("good", "good.gguf", {});
    await services.untilReady("good");
    expect((await services.chat("good", { max_tokens: 2 })).choices).toHaveLength(1);
  });
});
