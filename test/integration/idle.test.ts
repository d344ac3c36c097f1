/** Services with spec.idle on a real agent with real engines. The controller's clock is set forward; nothing waits for minutes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startAgent, type TestAgent, testAddress } from "../../agent/fixtures/agent.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import { demand } from "../bed/demand.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { killEngines, livingEngines } from "../bed/engines.ts";
import { service } from "../bed/manifests.ts";
import { enginePorts } from "../bed/ports.ts";
import { question } from "../bed/services.ts";
import { until } from "../bed/until.ts";
import { runVerb } from "../cli/program.ts";
import { type Bench, startBench } from "../controller/bench.ts";
import { createSteppedClock } from "../controller/stepped-clock.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const NS = "default";
const HOST = "mac-idle";
const STEP_MS = 15_000;
const IDLE = { afterMinutes: 1, minimumResidencySeconds: 0 };

const whyNot = findLlamaServer() === undefined ? "no llama-server" : undefined;
describeUnless(whyNot, "idle services with real engines", () => {
  const clock = createSteppedClock();
  const folder = mkdtempSync(path.join(tmpdir(), "metalbridge-idle-"));
  let bench: Bench;
  let agent: TestAgent;

  beforeAll(async () => {
    bench = await startBench({ clock });
    const source = path.join(folder, "tiny.gguf");
    await writeTinyGguf(source);
    for (const name of ["one", "two"]) await bench.model(NS, name, { source, gib: 1 / 64 });
    agent = await startAgent({
      kubeconfig: bench.cluster.kubeconfig,
      hostName: HOST,
      register: true,
      modelRoots: [folder],
      portRange: [...enginePorts()] as [number, number],
    });
  });

  afterAll(async () => {
    await agent?.stop();
    if (agent !== undefined) killEngines(agent.stateDir);
    await agent?.[Symbol.asyncDispose]();
    await bench?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Lets time pass for the controller, which sees the host renew its Lease meanwhile. */
  const pass = async (seconds: number): Promise<void> => {
    for (let left = seconds * 1_000; left > 0; left -= STEP_MS) {
      clock.advance(Math.min(left, STEP_MS));
      const value = new Date(clock.nowMs()).toISOString().replace("Z", "000Z");
      const renewal = [{ op: "replace" as const, path: "/spec/renewTime", value }];
      await bench.client.jsonPatch(LEASES, { namespace: NAMESPACE_HOSTS, name: HOST }, renewal);
    }
  };
  const ask = (name: string) => demand(bench.client, NS, name, clock.nowMs());
  const phaseIs = (name: string, phase: string) =>
    bench.serviceUntil(NS, name, ({ status }) => expect(status?.phase, status?.message).toBe(phase));
  const untilUnloaded = async (name: string) => {
    const idle = await phaseIs(name, "Idle");
    await until(async () => expect(await bench.replicas(NS)).toEqual([]));
    expect([...livingEngines(agent.stateDir)]).toEqual([]);
    return idle;
  };
  /** The first token of the service's engine. */
  const answer = async (name: string): Promise<number> => {
    const [replica] = (await bench.replicas(NS)).filter(({ spec }) => spec.template.serviceName === name);
    const url = `http://${testAddress()}:${replica?.status?.port}/v1/chat/completions`;
    const response = await fetch(url, { method: "POST", body: question({ max_tokens: 1 }) });
    return response.status;
  };

  it("an unused engine is stopped, and one request starts it once within moments, on the same port", async () => {
    await bench.apply(service("one", HOST, { idle: IDLE }, NS));
    await phaseIs("one", "Ready");
    expect(await answer("one")).toBe(200);
    const [before] = await bench.replicas(NS);
    await pass(150);
    await untilUnloaded("one");

    const demands = Promise.all(Array.from({ length: 50 }, () => ask("one")));
    await until(() => expect(livingEngines(agent.stateDir).size).toBe(1), { everyMs: 20 });
    await demands;
    await until(async () => expect(await answer("one")).toBe(200), { everyMs: 50 });
    await phaseIs("one", "Ready");
    const after = await bench.replicas(NS);
    expect(after.map(({ metadata, status }) => [metadata.name, status?.port])).toEqual([
      [before?.metadata.name, before?.status?.port],
    ]);
    expect([...livingEngines(agent.stateDir).keys()]).toEqual([after[0]?.metadata.uid]);
  });

  it("a question by the CLI loads an unloaded service, and is answered", async () => {
    await pass(150);
    await untilUnloaded("one");
    const chat = ["chat", "one", "Hello?", "--max-tokens", "4", "-n", NS];
    const { code, stdout, stderr } = await runVerb(chat, { kubeconfig: bench.cluster.kubeconfig });
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^service one is idle: its replicas start now\n/),
    });
    expect(stdout.trim()).not.toBe("");
  });

  it("two services that fit one at a time take turns by their requests", async () => {
    const [one] = await bench.replicas(NS);
    const claimBytes = one?.spec.memory.claimBytes ?? 0;
    expect(claimBytes).toBeGreaterThan(0);
    const spec = { memory: { gpuBudget: String(Math.round(claimBytes * 1.5)) } };
    await bench.objects.patch("", `mbhost/${HOST}`, { spec });
    await bench.apply(service("two", HOST, { idle: IDLE }, NS));
    await phaseIs("two", "WaitingForCapacity");
    for (const [wakes, sleeps] of [
      ["two", "one"],
      ["one", "two"],
      ["two", "one"],
    ] as const) {
      await ask(wakes);
      await pass(60);
      const { status } = await phaseIs(sleeps, "Idle");
      expect(["Idle", "IdleForOthers"]).toContain(status?.reason);
      await phaseIs(wakes, "Ready");
      expect(await answer(wakes)).toBe(200);
      expect(livingEngines(agent.stateDir).size).toBe(1);
    }
  });
});
