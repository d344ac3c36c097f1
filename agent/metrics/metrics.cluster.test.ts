import { rm } from "node:fs/promises";
import { expect, test, vi } from "vitest";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { problemsOf } from "../../test/metrics/conventions.ts";
import { type ParsedFamily, parseExposition } from "../../test/metrics/exposition.ts";
import { createBench } from "../../test/replicas/bench.ts";
import { startAgent, type TestAgent } from "../fixtures/agent.ts";

const llamaServer = findLlamaServer();
const patiently = { timeout: 60_000, interval: 50 };

async function scrape(agent: TestAgent): Promise<ReadonlyMap<string, ParsedFamily>> {
  const answer = await agent.ask("/metrics");
  return parseExposition(answer.replace(/^200 /, ""));
}

/** What is shown once the engine's own numbers are in it: a busy machine's engine may miss the moment it has for them. */
function scrapeWithEngine(agent: TestAgent, replica: object): Promise<ReadonlyMap<string, ParsedFamily>> {
  return vi.waitFor(async () => {
    const shown = await scrape(agent);
    expect(numberIn(shown, "metalbridge_engine_up", replica)).toBe(1);
    return shown;
  }, patiently);
}

/** The value of the one series that has these labels; NaN where there is none. */
function numberIn(shown: ReadonlyMap<string, ParsedFamily>, name: string, labels: object = {}): number {
  const family = [...shown.values()].find((each) => name.startsWith(each.name));
  const found = family?.samples.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([key, is]) => sample.labels[key] === is),
  );
  return found?.length === 1 ? (found[0]?.value ?? Number.NaN) : Number.NaN;
}

test.skipIf(llamaServer === undefined)(
  "a real engine's life in metrics: its tokens, its exits, a moment in which it does not answer, and no trace afterwards",
  async () => {
    const cluster = sharedCluster();
    const { objects, kubeconfig } = cluster;
    await using namespace = await cluster.namespace();
    await using bench = await createBench(kubeconfig, namespace.name);
    const { hostName, root } = bench.place;
    const settings = { kubeconfig, hostName, register: true, modelRoots: [root], keepState: true };
    const engine = { llamaServer: [llamaServer ?? ""], addresses: [bench.address] };
    const first = await startAgent({ ...settings, ...engine });
    await bench.createReplica("chat-0");
    const ready = await bench.untilPhase("chat-0", "Ready");

    const replica = { host: hostName, namespace: namespace.name, service: "chat", replica: "chat-0" };
    const before = await scrapeWithEngine(first, replica);
    expect([...before.values()].flatMap(problemsOf)).toEqual([]);
    expect(numberIn(before, "metalbridge_replica_phase", { ...replica, phase: "Ready" })).toBe(1);
    const claim = numberIn(before, "metalbridge_replica_memory_claim_bytes", replica);
    expect(claim).toBeGreaterThanOrEqual(64 * 2 ** 20);
    expect(numberIn(before, "metalbridge_engine_requests_running", replica)).toBe(0);
    expect(numberIn(before, "metalbridge_host_memory_claimed_bytes")).toBe(claim);
    expect(
      numberIn(before, "metalbridge_agent_api_requests_total", { verb: "WATCH", code: "200" }),
    ).toBeGreaterThan(1);
    const asked = { ...replica, probe: "request" };
    expect(numberIn(before, "metalbridge_replica_probe_duration_seconds_count", asked)).toBeGreaterThan(0);
    const started = numberIn(before, "metalbridge_replica_start_duration_seconds", replica);
    expect(started).toBeGreaterThan(0);
    // In seconds.
    expect(started).toBeLessThan(120);

    const answer = await fetch(`http://${bench.address}:${ready.status?.port}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        max_tokens: 4,
        ignore_eos: true,
        messages: [{ role: "user", content: "Hi there" }],
      }),
    });
    const { usage } = (await answer.json()) as { usage: { completion_tokens: number } };
    const after = await scrapeWithEngine(first, replica);
    const moved = (name: string) => numberIn(after, name, replica) - numberIn(before, name, replica);
    expect(usage.completion_tokens).toBeGreaterThan(0);
    expect(moved("metalbridge_engine_generated_tokens_total")).toBe(usage.completion_tokens);
    expect(moved("metalbridge_engine_prompt_tokens_total")).toBeGreaterThan(0);

    process.kill(ready.status?.pid ?? 0, "SIGKILL");
    await bench.untilExit("chat-0", "EngineKilled");
    const again = await bench.untilPhase("chat-0", "Ready");
    const exits = { ...replica, reason: "EngineKilled" };
    expect(numberIn(await scrape(first), "metalbridge_replica_exits_total", exits)).toBe(1);
    await first.stop();

    // What counts the past outlives the agent.
    const second = await startAgent({ ...settings, ...engine, stateDir: first.stateDir });
    await vi.waitFor(async () => expect(await second.ask("/readyz")).toBe("200 ok\n"), patiently);
    const adopted = await scrapeWithEngine(second, replica);
    expect(numberIn(adopted, "metalbridge_replica_restarts_total", replica)).toBe(1);
    expect(numberIn(adopted, "metalbridge_replica_exits_total", exits)).toBe(1);

    process.kill(again.status?.pid ?? 0, "SIGSTOP");
    // It answers while the engine is frozen.
    const frozen = await scrape(second);
    process.kill(again.status?.pid ?? 0, "SIGCONT");
    expect(numberIn(frozen, "metalbridge_engine_up", replica)).toBe(0);
    expect(numberIn(frozen, "metalbridge_engine_generated_tokens_total", replica)).toBeNaN();
    expect(numberIn(frozen, "metalbridge_replica_phase", { ...replica, phase: "Ready" })).toBe(1);

    await bench.deleteReplica("chat-0");
    await vi.waitFor(async () => expect(await second.ask("/metrics")).not.toContain("chat-0"), patiently);
    const gone = await scrape(second);
    const drains = { outcome: "quiet" };
    expect(numberIn(gone, "metalbridge_agent_drain_duration_seconds_count", drains)).toBe(1);
    expect(numberIn(gone, "metalbridge_agent_drain_duration_seconds_sum", drains)).toBeGreaterThan(2);
    expect(numberIn(gone, "metalbridge_host_memory_claimed_bytes")).toBe(0);
    await second.stop();
    await objects.remove("", `hosts/${hostName}`);
    await rm(first.stateDir, { recursive: true, force: true });
  },
);
