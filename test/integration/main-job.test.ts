/**
 * What everyone does with the system: a service from its manifest to its end, and an agent that is stopped.
 *
 * CPU: a whole system, six lives of its agent, and clients of its engines.
 */
import { existsSync, readdirSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { processesNaming } from "../bed/leftovers.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { pacedTokens } from "../bed/pace.ts";
import type { Part } from "../bed/part.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { watchSlices } from "../bed/watch-slices.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const NAMES = ["left", "right"] as const;
/** A signal sooner than this after the first is the same request. */
const SECOND_REQUEST_MS = 1_000;

interface Engine {
  readonly pid: number;
  readonly port: number;
}

describeUnless(whyNoNodeNetwork(), "a system of one host", () => {
  let on: System;

  beforeAll(async () => {
    on = await startSystem({ pace: true });
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  describe("the main job", () => {
    beforeAll(async () => {
      const at = (name: string) => path.join(on.farm.modelsDir, name);
      await writeTinyGguf(at("chat.gguf"));
      await writeTinyGguf(at("endless.gguf"), { endless: true, layers: 8, embeddingSize: 256 });
      await writeTinyGguf(at("embed.gguf"), { embedding: true });
    });

    afterAll(() => on.farm.objects.remove(NAMESPACE, "isvc", "mdl"));

    it("serves what was applied through the cluster's Service", async () => {
      await on.services.applyService("chat", "chat.gguf", {});
      await on.services.untilReady("chat");
      const answer = await on.services.chat("chat", { max_tokens: 16 });
      expect(answer.choices[0].message.content).not.toBe("");
      expect(answer.usage.completion_tokens).toBeGreaterThan(0);
    });

    it("streams an answer token by token", async () => {
      const url = `http://${await on.services.clusterIp("chat")}:8080/v1/chat/completions`;
      const { stdout } = await on.network.curlInside([
        "-N",
        "-m",
        "20",
        url,
        "-d",
        question({ max_tokens: 12, stream: true }),
      ]);
      const events = stdout.split("\n").filter((line) => line.startsWith("data: "));
      expect(events.length).toBeGreaterThan(3);
      expect(events.at(-1)).toBe("data: [DONE]");
    });

    it("serves embeddings in a service of that mode", async () => {
      await on.services.applyService("embed", "embed.gguf", { mode: "embedding" });
      await on.services.untilReady("embed");
      const answer = await on.services.post("embed", "/v1/embeddings", JSON.stringify({ input: "the sea" }));
      expect(answer.data[0].embedding).toHaveLength(64);
      await on.farm.objects.remove(NAMESPACE, "isvc/embed");
    });

    it("shows the whole course in kubectl get, events and conditions", async () => {
      const table = await on.farm.kubectl(["get", "isvc,irep,mdl,mbhost", "-A"]);
      expect(table).toMatch(/inferenceservice\S*\/chat\s+Ready/);
      expect(table).toContain(on.farm.hostName);
      const replica = await on.services.replicaOf("chat");
      expect(replica.status.phase).toBe("Ready");
      const events = await on.farm.kubectl([
        "get",
        "events",
        "-n",
        NAMESPACE,
        "-o",
        "jsonpath={.items[*].reason}",
      ]);
      expect(events.split(" ").length).toBeGreaterThan(2);
    });

    it("withdraws a killed engine at once and serves again", async () => {
      const before = (await on.services.replicaOf("chat")).status.pid;
      using slices = await watchSlices(on.farm.kubeconfig, NAMESPACE, "chat");
      process.kill(before, "SIGKILL");
      await until(() => expect(slices.withdrawals).toHaveLength(1), { everyMs: 10 });
      await on.services.replicaUntil("chat", ({ status }) => {
        expect(status).toMatchObject({ phase: "Ready", restarts: 1 });
        expect(status.pid).not.toBe(before);
        expect(status.lastExit).toMatchObject({ signal: "SIGKILL", killedByUs: false });
      });
      await until(
        async () => expect((await on.services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1),
        { everyMs: 250 },
      );
    });

    it("loses no request and no engine when the agent is killed in the middle of a streamed answer", async () => {
      await on.services.applyService("stream", "endless.gguf", { contextSize: 4096 });
      await on.services.untilReady("stream");
      // kube-proxy follows within its sync period; only an answer says that it has.
      await on.services.chat("stream", { max_tokens: 2 });
      const { pid } = (await on.services.replicaOf("stream")).status;
      const url = `http://${await on.services.clusterIp("stream")}:8080/v1/chat/completions`;
      let killed: Promise<void> | undefined;
      const answer = on.network.curlInside(
        ["-N", "-m", "90", url, "-d", question({ max_tokens: pacedTokens(1_500), stream: true })],
        {
          timeoutMs: 100_000,
          onStdout: () => {
            killed ??= on.farm.agent().kill("SIGKILL");
          },
        },
      );
      await until(() => expect(killed).toBeDefined(), { everyMs: 10 });
      await killed;
      on.farm.restartAgent();
      const { code, stdout } = await answer;
      expect(code).toBe(0);
      const events = stdout.split("\n").filter((line) => line.startsWith("data: "));
      expect(events.at(-1)).toBe("data: [DONE]");
      expect(events.length).toBeGreaterThan(pacedTokens(1_000));
      await on.services.untilReady("stream");
      expect((await on.services.replicaOf("stream")).status).toMatchObject({ pid, restarts: 0 });
      expect(isAlive(pid)).toBe(true);
      await on.farm.objects.remove(NAMESPACE, "isvc/stream");
    });

    it("follows kubectl scale to zero and back", async () => {
      await on.farm.kubectl(["scale", "isvc/chat", "-n", NAMESPACE, "--replicas=0"]);
      await until(() => expect(livingEngines(on.farm.stateDir).size).toBe(0));
      await on.services.statusUntil("chat", ({ phase }) => expect(phase).toBe("Stopped"));
      await on.farm.kubectl(["scale", "isvc/chat", "-n", NAMESPACE, "--replicas=1"]);
      await on.services.untilReady("chat");
      expect((await on.services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1);
    });

    it("runs a changed service beside the old one, then instead of it", async () => {
      const before = await on.services.replicaOf("chat");
      await on.farm.objects.patch(NAMESPACE, "isvc/chat", { spec: { contextSize: 512 } });
      await on.services.replicaUntil("chat", ({ metadata, status }) => {
        expect(metadata.name).not.toBe(before.metadata.name);
        expect(status.phase).toBe("Ready");
        expect(livingEngines(on.farm.stateDir).size).toBe(1);
      });
      expect((await on.services.chat("chat", { max_tokens: 4 })).choices).toHaveLength(1);
    });

    it("leaves nothing behind after kubectl delete", async () => {
      await on.farm.kubectl(["delete", "isvc/chat", "mdl/chat", "-n", NAMESPACE, "--timeout=60s"]);
      expect(livingEngines(on.farm.stateDir).size).toBe(0);
      const left = async (...selector: readonly string[]) => {
        const kinds = "irep,svc,endpointslices,controllerrevisions";
        const names = await on.farm.kubectl(["get", kinds, "-n", NAMESPACE, "-o", "name", ...selector]);
        return names.split("\n").filter((name) => /chat|stream|embed/.test(name));
      };
      const ofOurs = "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";
      expect(await left("-l", ofOurs)).toEqual([]);
      // Kubernetes has a slice of its own for a Service with a selector, which its garbage collector takes.
      await until(async () => expect(await left()).toEqual([]), { everyMs: 500 });
    });
  });

  /** It leaves its engines running, or drains them all where it is configured to. */
  describe("an agent that is asked to stop", () => {
    beforeAll(async () => {
      const endless = { endless: true, layers: 4, embeddingSize: 256 };
      await writeTinyGguf(path.join(on.farm.modelsDir, "lasting.gguf"), endless);
      // Room for an answer that outlasts every test.
      const spec = { contextSize: 131_072, rollout: { drainSeconds: 3_600 } };
      for (const name of NAMES) await on.services.applyService(name, "lasting.gguf", spec);
      await allReady();
    });

    const allReady = () => Promise.all(NAMES.map((name) => on.services.untilReady(name)));
    const enginesNow = async (): Promise<readonly Engine[]> =>
      (await Promise.all(NAMES.map((name) => on.services.replicaOf(name)))).map(({ status }) => status);

    /** Resolves once the stream has begun; `end` says whether all of it arrived. */
    async function stream(
      { port }: Engine,
      tokens: number,
    ): Promise<{ readonly end: Promise<"whole" | "cut"> }> {
      const answer = await fetch(`http://${on.network.hostAddress}:${port}/v1/chat/completions`, {
        method: "POST",
        body: question({ max_tokens: tokens, stream: true }),
      });
      const end = answer.text().then(
        (text) => (text.trimEnd().endsWith("data: [DONE]") ? ("whole" as const) : ("cut" as const)),
        () => "cut" as const,
      );
      return { end };
    }

    /** The log is that of all its lives. Before its start, a signal would end the new one at once, and say nothing. */
    async function restartToStop(): Promise<void> {
      const starts = () => on.farm.agent().log().split("agent started").length;
      const before = starts();
      on.farm.restartAgent({ args: ["--stop-engines"] });
      await until(() => expect(starts()).toBe(before + 1));
      await allReady();
    }

    const untilEnded = (part: Part) => until(() => expect(part.exitCode()).toBe(0));

    async function expectNothingLeft(engines: readonly Engine[]): Promise<void> {
      expect(engines.map(({ pid }) => isAlive(pid))).toEqual([false, false]);
      await until(() => expect(processesNaming(on.farm.stateDir)).toEqual([]), { everyMs: 250 });
      expect(
        await Promise.all(engines.map(({ port }) => isListenedOn(on.network.hostAddress, port))),
      ).toEqual([false, false]);
      const folder = path.join(on.farm.stateDir, "engines");
      const left = readdirSync(folder).filter((uid) => existsSync(path.join(folder, uid, "engine.json")));
      expect(left).toEqual([]);
    }

    it("leaves its engines running, says so, and the next takes them over", async () => {
      const before = await enginesNow();
      await on.farm.agent().kill("SIGTERM");
      expect(on.farm.agent().exitCode()).toBe(0);
      const said = on.farm
        .agent()
        .log()
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      const keeps = { engines: 2, msg: expect.stringContaining("2 engines keep running") };
      expect(said).toContainEqual(expect.objectContaining(keeps));
      expect(before.map(({ pid }) => isAlive(pid))).toEqual([true, true]);
      expect(await (await stream(before[0] as Engine, 5)).end).toBe("whole");
      await restartToStop();
      expect((await enginesNow()).map(({ pid }) => pid)).toEqual(before.map(({ pid }) => pid));
    });

    it("with --stop-engines drains them all: a stream finishes, endpoints go first, nothing is left", async () => {
      const engines = await enginesNow();
      const order: string[] = [];
      // Frozen until the withdrawals have been seen: on any machine the streams are still on their way then.
      const streams = await Promise.all(
        engines.map(async (engine) => {
          const begun = await stream(engine, pacedTokens(3_000));
          process.kill(engine.pid, "SIGSTOP");
          return begun;
        }),
      );
      const streamed = Promise.all(
        streams.map(async ({ end }) => {
          order.push(`stream ${await end}`);
        }),
      );
      process.kill(on.farm.agent().pid, "SIGTERM");
      const withdrawn = NAMES.map(async (name) => {
        await on.services.sliceUntil(name, false);
        order.push("withdrawn");
      });
      const ended = engines.map(async ({ pid }) => {
        await until(() => expect(isAlive(pid)).toBe(false));
        order.push("ended");
      });
      await Promise.all(withdrawn);
      for (const { pid } of engines) process.kill(pid, "SIGCONT");
      await Promise.all([streamed, ...ended]);
      await untilEnded(on.farm.agent());
      const phases = ["withdrawn", "withdrawn", "stream whole", "stream whole", "ended", "ended"];
      expect([...order].sort((a, b) => rank(a) - rank(b))).toEqual(phases);
      expect(order.slice(0, 2)).toEqual(["withdrawn", "withdrawn"]);
      await expectNothingLeft(engines);
      for (const name of NAMES) {
        const { status } = await on.services.replicaOf(name);
        expect(status).toMatchObject({ phase: "Stopped", reason: "AgentStopped" });
      }
    });

    it("a second TERM brings their end nearer, and a TERM within a second of the first does not", async () => {
      await restartToStop();
      const engines = await enginesNow();
      const streams = await Promise.all(engines.map((engine) => stream(engine, pacedTokens(120_000))));
      const { pid } = on.farm.agent();
      const firstAt = performance.now();
      process.kill(pid, "SIGTERM");
      process.kill(pid, "SIGTERM");
      await Promise.all(
        NAMES.map((name) =>
          on.services.replicaUntil(name, ({ status }) => expect(status.reason).toBe("AwaitingQuiet")),
        ),
      );
      // The drain has begun and would take an hour.
      expect(performance.now() - firstAt).toBeGreaterThan(SECOND_REQUEST_MS);
      expect(engines.map((engine) => isAlive(engine.pid))).toEqual([true, true]);
      process.kill(pid, "SIGTERM");
      await untilEnded(on.farm.agent());
      expect(await Promise.all(streams.map(({ end }) => end))).toEqual(["cut", "cut"]);
      await expectNothingLeft(engines);
      expect(on.farm.agent().log()).toContain("second request to stop");
      expect(livingEngines(on.farm.stateDir).size).toBe(0);
    });
  });
});

function rank(step: string): number {
  return ["withdrawn", "stream whole", "stream cut", "ended"].indexOf(step);
}

function isListenedOn(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
      .once("connect", () => {
        socket.destroy();
        resolve(true);
      })
      .once("error", () => resolve(false));
  });
}
