/**
 * Faulty agents beside a good one: engines, disks, addresses, names, credentials. Each reports what to do, harms none.
 *
 * CPU: a whole system with nine agents, because each fault needs one of its own.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { testAddress } from "../../agent/fixtures/agent.ts";
import type { Condition } from "../../src/api/conditions.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service, serviceAnywhere } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { startPart } from "../bed/part.ts";
import { question } from "../bed/services.ts";
import { startFleet } from "../bed/test-fleet.ts";
import { until } from "../bed/until.ts";
import { startCluster } from "../cluster/cluster.ts";
import { writeFaultyEngine } from "../fixtures/faulty-engines.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
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
    bad.services.replicaUntil(name, ({ status }) =>
      expect(status).toMatchObject({ phase, reason, message: expect.stringContaining(advice) }),
    );

  const untilLogged = (agent: ExtraAgent, text: string) => until(() => expect(agent.log()).toContain(text));

  const untilHostReady = (name: string, reason: string) =>
    bad.farm.objects.until("", `mbhost/${name}`, (host) => {
      const ready = host?.status?.conditions?.find(({ type }: Condition) => type === "Ready");
      expect(ready).toMatchObject({ reason });
      return ready;
    });

  // First: the hosts of the other tests fall silent when those finish, and hosts silent together are not marked lost.
  it("takes back its place in the Service when it comes back from a silence", async () => {
    const agent = await bad.agent("silent");
    await bad.apply(model("silent", source()), service("silent", "silent"));
    await bad.services.untilReady("silent");
    const { pid } = (await bad.services.replicaOf("silent")).status;
    process.kill(agent.pid, "SIGSTOP");
    try {
      await bad.services.sliceUntil("silent", false);
      await bad.services.statusUntil("silent", (status) =>
        expect(status).toMatchObject({ reason: "HostUnreachable", readyReplicas: 0 }),
      );
    } finally {
      process.kill(agent.pid, "SIGCONT");
    }
    await bad.services.sliceUntil("silent", true);
    await bad.services.untilReady("silent");
    expect((await bad.services.replicaOf("silent")).status).toMatchObject({ pid, restarts: 0 });
    expect((await bad.services.chat("silent", { max_tokens: 2 })).choices).toHaveLength(1);
  });

  it("names the fault of an engine that crashes, hangs, or is too old", async () => {
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
    ]);
    const hurried = { probeOverrides: { startup: { periodSeconds: 1, failureThreshold: 2 } } };
    await bad.apply(
      ...["crashes", "hangs", "old"].flatMap((name) => [model(name, source()), service(name, name, hurried)]),
    );
    const untilBackoff = (name: string, reason: string) =>
      bad.services.replicaUntil(name, ({ status }) => {
        expect(status).toMatchObject({ phase: "Backoff", reason });
        expect(status?.restarts).toBeGreaterThan(0);
        expect(status?.message).toMatch(/; \S/);
      });
    await Promise.all([
      untilBackoff("crashes", "EngineCrashed"),
      untilBackoff("hangs", "EngineNeverHealthy"),
      bad.services.statusUntil("old", (status) => {
        expect(status).toMatchObject({ phase: "WaitingForCapacity", reason: "HostRuntimeMissing" });
        expect(status?.message).toContain("brew upgrade llama.cpp");
        expect(status?.placement?.misses?.[0]).toMatchObject({ host: "old" });
      }),
    ]);
    const [crashed] = await bad.replicasOf("crashes");
    expect(crashed?.status?.lastExit?.logTail).toContain("something broke");
    await bad.farm.objects.remove("default", "isvc/crashes", "isvc/hangs");
    await Promise.all(agents.map((agent) => agent.kill("SIGTERM")));
  });

  it("waits for room on the disk, while what fits beside it serves", async () => {
    const disk = path.join(bad.dir, "full", "models");
    mkdirSync(disk, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]);
    const agent = await bad.agent("full");
    try {
      await bad.apply(
        ...[model("small", `${bad.origin.url}/good.gguf`), service("small", "full")],
        ...[model("large", `${bad.origin.url}/large.gguf`), service("large", "full")],
      );
      await Promise.all([
        untilReplica("large", "Waiting", "DiskFull", "free space"),
        bad.services.untilReady("small"),
      ]);
      const [small] = await bad.replicasOf("small");
      expect(small?.status).toMatchObject({ phase: "Ready", restarts: 0 });
      expect((await bad.services.chat("small", { max_tokens: 2 })).choices).toHaveLength(1);
      await bad.farm.objects.remove("default", "isvc/small", "isvc/large");
      await agent.kill("SIGTERM");
    } finally {
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
      await untilHostReady(hostName, "AgentReady");
      await named.kill("SIGTERM");
    },
    5 * MINUTE,
  );

  it("waits out a kubeconfig that is missing, leads nowhere or has expired, and works once it is right", async () => {
    const right = readFileSync(await bad.farm.join("lost"), "utf8");
    const kubeconfig = path.join(bad.dir, "wrong.kubeconfig");
    const write = (text: string) => writeFileSync(kubeconfig, text, { mode: 0o600 });
    const agent = await bad.agent("lost", { kubeconfig });
    await untilLogged(agent, "KubeconfigUnreadable");
    write(right.replace(`:${bad.cluster.port}`, ":1"));
    await untilLogged(agent, "ApiUnreachable");
    write(right.replace(/token: .*/, "token: no-longer-valid"));
    await untilLogged(agent, "ApiUnauthorized");
    expect(agent.isRunning()).toBe(true);
    // A controller has no engines to look after: its Deployment starts it again.
    const controller = startPart(
      ["controller", "--kubeconfig", path.join(bad.dir, "nothing-here"), "--health-port", "0"],
      path.join(bad.dir, "second-controller.log"),
    );
    await until(() => expect(controller.exitCode()).toBe(1));
    expect(controller.log()).toContain("KubeconfigUnreadable");
    write(right);
    await untilHostReady("lost", "AgentReady");
    await agent.kill("SIGTERM");
  });
});

describe.skipIf(findLlamaServer() === undefined)("agent and controller before the CRDs", () => {
  it("report that they wait for them, and work once they are installed", async () => {
    await using cluster = await startCluster({ crds: false });
    // No host can be added to a cluster without CRDs: its agent registers it later.
    const { kubeconfig, objects } = cluster;
    await using farm = await startFleet({
      kubeconfig,
      controllerKubeconfig: kubeconfig,
      address: testAddress(),
      agents: [{ kubeconfig, args: ["--register"] }],
    });
    const source = path.join(farm.modelsDir, "good.gguf");
    await writeTinyGguf(source);
    await until(() => expect(farm.agent().log()).toContain("CrdsNotInstalled"));
    await until(() => expect(farm.controller().log()).toContain("CrdsNotInstalled"));
    expect([farm.agent().isRunning(), farm.controller().isRunning()]).toEqual([true, true]);
    await cluster.installCrds();
    await objects.apply(model("good", source), serviceAnywhere("good"));
    await objects.until("default", "isvc/good", ({ status }) => expect(status?.phase).toBe("Ready"));
    const [{ status }] = await objects.list(INFERENCE_REPLICAS);
    const url = `http://${testAddress()}:${status.port}/v1/chat/completions`;
    const answer = await fetch(url, { method: "POST", body: question({ max_tokens: 2 }) });
    expect(answer.status).toBe(200);
  });
});
