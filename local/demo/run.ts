/** The main job from an empty folder to an answer: control plane, controller, agent, Model, InferenceService, question. */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { ApiResult, KubeClient } from "../../src/kube/types.ts";
import { readPartsConfig } from "../control-plane/config.ts";
import { machineAddress } from "./address.ts";
import { ask } from "./ask.ts";
import { engineFlags } from "./engine.ts";
import { followUntilReady } from "./follow.ts";
import { DEMO_NAMESPACE, type DemoManifests, readDemoManifests } from "./manifests.ts";
import type { DemoOptions } from "./options.ts";
import type { Screen } from "./screen.ts";
import { demoSource } from "./source.ts";
import { type DemoSystem, openDemoSystem } from "./system.ts";

export interface DemoResult {
  readonly ready: true;
  readonly endpoint: string;
  readonly reply: string;
  readonly timings: Readonly<Record<"controlPlaneMs" | "readyMs" | "answerMs" | "totalMs", number>>;
}

export interface RunningDemo {
  readonly result: DemoResult;
  readonly system: DemoSystem;
}

export interface DemoPorts {
  readonly screen: Screen;
  readonly signal: AbortSignal;
  readonly requestStop: () => void;
}

const MANAGER = "metalbridge-demo";
const ANSWER_TIMEOUT_MS = 120_000;
const ASK_AGAIN_MS = 500;

/** Leaves everything running; on failure everything it started has been stopped. */
export async function runDemo(options: DemoOptions, ports: DemoPorts): Promise<RunningDemo> {
  const { screen, signal } = ports;
  const beganAt = performance.now();
  const address = machineAddress(undefined, options.address);
  const engine = engineFlags(options.engine, readPartsConfig());
  const { source, path } = await demoSource(options);
  const manifests = await readDemoManifests(source, options.engine);
  screen.title(`Metalbridge: a model on this machine, behind a Kubernetes Service   (state: ${options.dir})`);
  const system = await openDemoSystem({
    dir: options.dir,
    address,
    engineFlags: engine,
    modelRoots: [join(options.dir, "models"), ...(path === undefined ? [] : [path])],
    signal,
    onStopOrder: ports.requestStop,
  });
  try {
    const controlPlaneMs = performance.now() - beganAt;
    screen.done("control plane", "real kube-apiserver and etcd, on loopback", controlPlaneMs);
    system.startParts();
    const result = await Promise.race([serve(system, manifests, options, ports), system.partFailed]);
    const timings = { controlPlaneMs, ...result.timings, totalMs: performance.now() - beganAt };
    return { system, result: { ...result, timings: rounded(timings) } };
  } catch (error) {
    await system.stop();
    throw error;
  }
}

async function serve(
  system: DemoSystem,
  manifests: DemoManifests,
  options: DemoOptions,
  { screen, signal }: DemoPorts,
) {
  const { connection } = system;
  const client = createClient(connection);
  const appliedAt = performance.now();
  await applyManifests(client, manifests);
  const { source } = manifests.model.spec;
  screen.done("applied", "Model/quickstart, InferenceService/quickstart", performance.now() - appliedAt);
  screen.line(
    `    weights: ${source}${options.model === undefined ? " (generated: a real engine, meaningless words)" : ""}`,
  );
  const { name } = manifests.service.metadata;
  const answered = await untilAnswered(
    { name, prompt: options.prompt, connection, screen, signal },
    appliedAt,
    options,
  );
  screen.done("answered", "asked at the address that the EndpointSlice holds", answered.timings.answerMs);
  return { ready: true as const, ...answered };
}

interface Question {
  readonly name: string;
  readonly prompt: string;
  readonly connection: KubeConnection;
  readonly screen: Screen;
  readonly signal: AbortSignal;
}

/**
 * Waits for the service and asks it. After a demo that was killed the objects still say Ready, for an engine that is gone,
 * until the new agent has looked: an endpoint that refuses is waited for again.
 */
async function untilAnswered(question: Question, appliedAt: number, { timeoutSeconds }: DemoOptions) {
  const { name, prompt, connection, screen, signal } = question;
  const deadline = appliedAt + timeoutSeconds * 1_000;
  for (;;) {
    const { endpoint } = await followUntilReady({
      ...{ connection, namespace: DEMO_NAMESPACE, name, screen, signal },
      startedAtMs: appliedAt,
      timeoutMs: deadline - performance.now(),
    });
    const readyMs = performance.now() - appliedAt;
    const within = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]);
    try {
      const reply = await ask(endpoint, name, prompt, within);
      const answerMs = performance.now() - appliedAt - readyMs;
      screen.done("ready", endpoint, readyMs);
      return { endpoint, reply, timings: { readyMs, answerMs } };
    } catch (error) {
      if (!isRefused(error) || performance.now() > deadline) throw error;
      screen.line("    nothing answers there yet: the endpoint is from an earlier run");
      await pause(ASK_AGAIN_MS, undefined, { signal });
    }
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof MetalbridgeError && error.code === "NoAnswer" && error.cause !== undefined;
}

async function applyManifests(client: KubeClient, { model, service }: DemoManifests): Promise<void> {
  expectApplied(await client.apply(MODELS, model, { manager: MANAGER }));
  expectApplied(await client.apply(INFERENCE_SERVICES, service, { manager: MANAGER }));
}

function expectApplied(result: ApiResult<unknown>): void {
  if (!result.ok) throw explainFailure(result.error);
}

function rounded<T extends Record<string, number>>(timings: T): T {
  return Object.fromEntries(Object.entries(timings).map(([name, ms]) => [name, Math.round(ms)])) as T;
}
