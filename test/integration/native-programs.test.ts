/**
 * Native programs from kubectl apply to an answer through kube-proxy, and back to nothing: a tiny program, llama-server of a BackendRuntime, and mlx_lm.server.
 *
 * CPU: a whole system with two hosts, nine programs, and mlx_lm.server, which takes seconds to start.
 */
import { chmodSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { findMlxLm } from "../../scripts/setup/python-programs.mjs";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE } from "../bed/services.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { runInTerminal } from "../cli/in-terminal.ts";
import { runVerb } from "../cli/program.ts";
import { findLlamaServer } from "../fixtures/llama-server.ts";
import { type TemporaryFolder, temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { writeTinyMlx } from "../fixtures/tiny-mlx.ts";

const mlxLm = findMlxLm();
const withMlx = mlxLm === undefined ? it.skip : it;
const TINY = fileURLToPath(new URL("../../agent/engines/testing/tiny-program.ts", import.meta.url));

describeUnless(whyNoNodeNetwork(), "native programs behind kube-proxy", () => {
  let folder: TemporaryFolder;
  let program: string;
  let on: System;

  beforeAll(async () => {
    folder = await temporaryFolder();
    const root = path.join(realpathSync(folder.path), "programs");
    mkdirSync(root);
    program = path.join(root, "serve");
    writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${TINY}' "$@"\n`);
    chmodSync(program, 0o755);
    const roots = [root, ...(mlxLm === undefined ? [] : [realpathSync(mlxLm)])];
    const backends = { unheard: { path: program }, "my-llama": { path: findLlamaServer() ?? "" } };
    on = await startSystem({
      agents: [
        { hostName: "mac-without", config: {} },
        { hostName: "mac-with", config: { generic: { roots }, backends } },
      ],
    });
  });

  afterAll(async () => {
    await on?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
  });

  const engines = () => on.farm.agents.flatMap(({ stateDir }) => [...livingEngines(stateDir).values()]);
  const condition = async (name: string, type: string) => {
    const { conditions = [] } = (await on.services.serviceStatus(name)) ?? {};
    return conditions.find((one: { readonly type: string }) => one.type === type);
  };
  const conditionUntil = (name: string, type: string, found: object) =>
    on.services.statusUntil(name, (status) =>
      expect(status?.conditions).toContainEqual(expect.objectContaining({ type, ...found })),
    );
  const applyBackend = (name: string, host: object, spec: object) =>
    on.apply({
      apiVersion: "metalbridge.dev/v1alpha1",
      kind: "BackendRuntime",
      metadata: { name },
      spec: { host, ...spec },
    });
  const applyService = async (name: string, backend: string, spec: object) => {
    await writeTinyGguf(path.join(on.farm.modelsDir, "tiny.gguf"));
    await on.services.applyService(name, "tiny.gguf", {
      backendRuntime: { name: backend },
      runtime: undefined,
      extraArgs: undefined,
      promptCacheMiB: undefined,
      contextSize: undefined,
      ...spec,
    });
  };
  const removed = async (name: string) => {
    await on.farm.objects.remove(NAMESPACE, `isvc/${name}`, `mdl/${name}`);
    await on.farm.objects.until(NAMESPACE, "irep", (left) => expect(left).toEqual([]));
    await until(() => expect(engines()).toEqual([]));
  };

  it("a program runs on the host that allows it, answers through its Service, and leaves nothing behind", async () => {
    await writeTinyGguf(path.join(on.farm.modelsDir, "tiny.gguf"));
    await on.services.applyService("native", "tiny.gguf", {
      runtime: "generic",
      command: [program],
      args: ["{{port}}", "{{address}}", "{{model}}", "{{slots}}"],
      extraArgs: undefined,
      promptCacheMiB: undefined,
      contextSize: 512,
      resources: { memory: "256Mi" },
      probeOverrides: { liveness: { httpGet: { path: "/health" } } },
      inFlightProbe: { gauges: ["held"] },
    });
    await on.services.untilReady("native");
    const replica = await on.services.replicaOf("native");
    expect(replica.spec.template.hostName).toBe("mac-with");
    expect(replica.status.memory).toMatchObject({ claimBasis: "spec.resources.memory of the service" });
    expect(await on.services.post("native", "/arguments", "")).toEqual([
      ...[String(replica.status.port), on.network.hostAddress],
      ...[path.join(on.farm.modelsDir, "tiny.gguf"), "1"],
    ]);
    expect(await condition("native", "SpecHonored")).toMatchObject({
      status: "False",
      message: expect.stringContaining("spec.contextSize"),
    });
    await removed("native");
  });

  it("an unknown engine runs from a BackendRuntime on the host that allows it, and drains by its gauge", async () => {
    const host = {
      command: ["serve"],
      args: ["{{ .Port }}", "{{ .Address }}", "{{ .ModelName }}"],
      memory: { weightsPercent: 110, extra: "128Mi" },
    };
    await applyBackend("unheard", host, {
      gauges: { running: ["held"] },
      probes: { liveness: { httpGet: { path: "/health", port: 8080 } } },
    });
    await applyService("speech", "unheard", { rollout: { drainSeconds: 600 } });
    await on.services.untilReady("speech");
    const replica = await on.services.replicaOf("speech");
    expect(replica.spec.template.hostName).toBe("mac-with");
    expect(replica.status.memory.claimBasis).toContain("as in host.memory of BackendRuntime unheard");
    expect(await on.services.post("speech", "/arguments", "")).toEqual([
      ...[String(replica.status.port), on.network.hostAddress, "speech"],
    ]);
    const ignored = (await condition("speech", "SpecHonored"))?.message;
    expect(ignored).not.toContain("probeOverrides");
    const hosts: Host[] = await on.farm.objects.list(HOSTS);
    const entries = hosts.find(({ metadata }) => metadata.name === "mac-with")?.status?.runtimes;
    expect(entries).toContainEqual({ name: "backend/unheard", path: program });
    // Long before drainSeconds.
    await removed("speech");
  });

  it("a changed BackendRuntime updates the engines of a service when a restart is requested", async () => {
    const applied = (mark: string) =>
      applyBackend(
        "unheard",
        { command: ["serve"], args: ["{{port}}", "{{address}}", mark], memory: { fixed: "64Mi" } },
        { gauges: { running: ["held"] } },
      );
    /** Which content the engine behind the ClusterIP of each service has. */
    const marksUntil = (expected: readonly string[]) =>
      until(
        async () => {
          const marks = services.map(async (name) => (await on.services.post(name, "/arguments", "")).at(-1));
          expect(await Promise.all(marks)).toEqual(expected);
        },
        { everyMs: 500 },
      );
    const services = ["speech-a", "speech-b"];
    await applied("1");
    for (const name of services) {
      await applyService(name, "unheard", { rollout: { drainSeconds: 600 } });
      await on.services.untilReady(name);
    }
    await marksUntil(["1", "1"]);
    await applied("2");
    await conditionUntil("speech-b", "BackendRuntimeCurrent", { reason: "UpdatePending" });
    const restart = await runVerb(["rollout", "restart", "speech-b", "-n", NAMESPACE], on.cluster);
    expect(restart).toMatchObject({ code: 0, stdout: expect.stringContaining("BackendRuntime unheard") });
    await marksUntil(["1", "2"]);
    await on.farm.objects.remove(NAMESPACE, "isvc/speech-a", "mdl/speech-a");
    await removed("speech-b");
  });

  it("llama-server itself is served from a BackendRuntime of a user", async () => {
    const host = {
      command: ["llama-server"],
      args: [
        ...["--model", "{{ .ModelPath }}", "--alias", "{{ .ModelName }}", "--port", "{{ .Port }}"],
        ...["--host", "{{ .Address }}", "--ctx-size", "{{ .ContextSize }}", "--threads", "1", "--metrics"],
      ],
    };
    await applyBackend("my-llama", host, {
      gauges: { running: ["llamacpp:requests_processing"], queued: ["llamacpp:requests_deferred"] },
      probes: { liveness: { httpGet: { path: "/health" } } },
    });
    await applyService("own", "my-llama", { contextSize: 512 });
    await on.services.untilReady("own");
    const answer = await on.services.chat("own", { max_tokens: 2 });
    expect(answer).toMatchObject({ object: "chat.completion", usage: { completion_tokens: 2 } });
    await removed("own");
  });

  it("a BackendRuntime that no host allows, or only with another path, waits until a host's configuration has it", async () => {
    const waits = (message: string) =>
      conditionUntil("later", "Ready", {
        status: "False",
        reason: "BackendNotAllowed",
        message: expect.stringContaining(message),
      });
    const agent = on.farm.agents[0];
    if (agent === undefined) throw new Error("no agent");
    const restartWith = async (config: object) => {
      const file = path.join(path.dirname(agent.stateDir), `${agent.hostName}.yaml`);
      await agent.part().kill("SIGTERM");
      writeFileSync(file, JSON.stringify({ peers: { enabled: false }, ...config }));
      agent.restart();
    };
    const host = { command: [program], args: ["{{port}}", "{{address}}"], install: "brew install later" };
    await applyBackend("later", host, {});
    await applyService("later", "later", {});
    await waits(
      "no host allows BackendRuntime later; install its program on a host (install: brew install later)",
    );
    await restartWith({ backends: { later: { path: "/bin/sh" } } });
    await waits(`allows BackendRuntime later only with program /bin/sh, not with ${program}`);
    await restartWith({ backends: { later: { path: program } } });
    await on.services.untilReady("later");
    expect((await on.services.replicaOf("later")).spec.template.hostName).toBe("mac-without");
    await removed("later");
  });

  it("a program with tty: true serves, shows its terminal to who attaches on its host, and leaves nothing behind", async () => {
    await writeTinyGguf(path.join(on.farm.modelsDir, "tiny.gguf"));
    await on.services.applyService("console", "tiny.gguf", {
      runtime: "generic",
      command: [program],
      args: ["{{port}}", "{{address}}"],
      tty: true,
      extraArgs: undefined,
      promptCacheMiB: undefined,
      resources: { memory: "256Mi" },
      probeOverrides: { liveness: { httpGet: { path: "/health" } } },
      inFlightProbe: { gauges: ["held"] },
    });
    await on.services.untilReady("console");
    const { status } = await on.services.replicaOf("console");
    expect(await on.services.post("console", "/arguments", "")).toEqual([
      ...[String(status.port), on.network.hostAddress],
    ]);
    const { stateDir } = on.farm.agents[1] ?? {};
    using attached = runInTerminal(["attach", "console", "--state-dir", String(stateDir)]);
    await attached.shows("attached to");
    attached.pty.write("echoed");
    await attached.shows("echoed");
    attached.pty.write("\u001d");
    await attached.shows("its program keeps running");
    await removed("console");
  });

  it("a command that cannot work is a condition of the service, and nothing is placed", async () => {
    await on.services.applyService("broken", "tiny.gguf", {
      runtime: "generic",
      command: [program, "{{model}}"],
    });
    await conditionUntil("broken", "Ready", {
      status: "False",
      reason: "CommandInvalid",
      message: expect.stringContaining("{{port}}"),
    });
    await removed("broken");
  });

  withMlx("mlx_lm.server serves an MLX model by the example's manifest", async () => {
    writeTinyMlx(path.join(on.farm.modelsDir, "mlx"));
    const read = (name: string) =>
      parse(readFileSync(new URL(`../../examples/mlx-lm/${name}.yaml`, import.meta.url), "utf8"));
    const [model, service] = [read("model"), read("inferenceservice")];
    model.spec.source = path.join(on.farm.modelsDir, "mlx");
    service.spec.command = [realpathSync(mlxLm ?? "")];
    service.spec.resources = { memory: "1Gi" };
    service.spec.rollout = { drainSeconds: 2 };
    await on.apply(model, service);
    await on.services.untilReady("qwen3-mlx");
    const answer = await on.services.chat("qwen3-mlx", { max_tokens: 2 });
    expect(answer).toMatchObject({ object: "chat.completion", usage: { completion_tokens: 2 } });
    await removed("qwen3-mlx");
  });

  withMlx(
    "an MLX model without spec.runtime is served by the mlx_lm.server that a host has in its roots",
    async () => {
      const folder = path.join(on.farm.modelsDir, "chosen");
      writeTinyMlx(folder);
      const object = (kind: string, spec: object) => ({
        apiVersion: "metalbridge.dev/v1alpha1",
        kind,
        spec,
        metadata: { name: "chosen", namespace: NAMESPACE },
      });
      await on.apply(
        object("Model", { source: folder, format: "mlx" }),
        object("InferenceService", { modelRef: "chosen", rollout: { drainSeconds: 2 } }),
      );
      await on.services.untilReady("chosen");
      expect(await on.services.serviceStatus("chosen")).toMatchObject({ runtime: "generic" });
      const answer = await on.services.chat("chosen", { max_tokens: 2 });
      expect(answer).toMatchObject({ object: "chat.completion", usage: { completion_tokens: 2 } });
      const hosts: Host[] = await on.farm.objects.list(HOSTS);
      const host = hosts.find(({ metadata }) => metadata.name === "mac-with");
      expect(host?.status?.runtimes).toContainEqual({
        name: "mlx_lm.server",
        path: expect.stringMatching(/mlx_lm\.server$/),
        version: expect.stringMatching(/^\d+\.\d+/),
      });
      await removed("chosen");
    },
  );
});
