/** The main job from an empty folder to an answer: control plane, controller, agent, Model, InferenceService, question. */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { readPartsConfig } from "../control-plane/config.ts";
import { CONTROL_PLANE_FREE_BYTES, requireFreeSpace } from "../control-plane/state/disk.ts";
import { shellWord } from "../shell-word.ts";
import { machineAddress } from "./address.ts";
import { applyManifests } from "./apply.ts";
import { askModel } from "./ask.ts";
import { type DemoEngine, engineFlags } from "./engine.ts";
import { followUntilReady } from "./follow.ts";
import type { AppliedObjects } from "./judge.ts";
import { type DemoManifests, readDemoManifests } from "./manifests.ts";
import type { DemoScreen } from "./screen.ts";
import { demoSource } from "./source.ts";
import { type DemoSystem, openDemoSystem } from "./system.ts";

export interface DemoOptions {
  readonly dir: string;
  readonly once?: boolean;
  readonly output: "text" | "json";
  readonly model?: string;
  readonly engine: DemoEngine;
  readonly prompt: string;
  readonly address?: string;
  readonly timeoutSeconds: number;
}

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
  readonly screen: DemoScreen;
  readonly signal: AbortSignal;
  readonly requestStop: () => void;
}

/** Below it the agent reports DiskPressure, and no replica is placed: the default of `disk.reserve`. */
const AGENT_RESERVE_BYTES = 5 * 2 ** 30;
const WHY_SPACE = "the agent keeps 5 GiB free for other programs, and the control plane needs the rest";
const ANSWER_TIMEOUT_MS = 120_000;
const ASK_AGAIN_MS = 500;

/** Leaves everything running; on failure everything it started has been stopped. */
export async function runDemo(options: DemoOptions, ports: DemoPorts): Promise<RunningDemo> {
  const { screen, signal } = ports;
  const beganAt = performance.now();
  const address = machineAddress(undefined, options.address);
  const engine = engineFlags(options.engine, readPartsConfig());
  await requireFreeSpace(options.dir, AGENT_RESERVE_BYTES + CONTROL_PLANE_FREE_BYTES, WHY_SPACE);
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
  const appliedAt = performance.now();
  const { applied, kept } = await applyManifests(createClient(connection), manifests, options);
  const { source } = applied.model.spec;
  screen.done("applied", "Model/quickstart, InferenceService/quickstart", performance.now() - appliedAt);
  const isGenerated = options.model === undefined && source === manifests.model.spec.source;
  screen.line(`    weights: ${source}${isGenerated ? " (generated: a real engine, meaningless words)" : ""}`);
  if (kept.length > 0) screen.line(`    kept as you changed it: ${kept.join(", ")}`);
  const isOff = isTurnedOff(applied, system.kubeconfig, options, screen);
  const question = { applied, prompt: options.prompt, connection, screen, signal };
  const answered = await untilAnswered(
    question,
    appliedAt,
    isOff ? Number.POSITIVE_INFINITY : options.timeoutSeconds * 1_000,
  );
  screen.done("answered", "asked at the address that the EndpointSlice holds", answered.timings.answerMs);
  return { ready: true as const, ...answered };
}

/** A service that the user has scaled to 0 or suspended stays so, and the demo waits until the user changes that. */
function isTurnedOff(
  { service: { spec } }: AppliedObjects,
  kubeconfig: string,
  { once }: DemoOptions,
  screen: DemoScreen,
): boolean {
  if (spec.replicas !== 0 && spec.suspend !== true) return false;
  const [what, command] =
    spec.suspend === true
      ? ["suspended", `kubectl patch isvc/quickstart --type merge -p '{"spec":{"suspend":false}}'`]
      : ["scaled to 0", "kubectl scale isvc/quickstart --replicas 1"];
  if (once === true)
    throw new MetalbridgeError("DemoNotReady", `the service is ${what}, as you left it`, {
      summary: "start without --once, and change that in another terminal",
      command,
    });
  screen.line(`    the service is ${what}, as you left it; to start it, in another terminal:`);
  screen.line(`      export KUBECONFIG=${shellWord(kubeconfig)}\n      ${command}`);
  return true;
}

interface Question {
  readonly applied: AppliedObjects;
  readonly prompt: string;
  readonly connection: KubeConnection;
  readonly screen: DemoScreen;
  readonly signal: AbortSignal;
}

/**
 * Waits for the service and asks it. After a demo that was killed the objects still say Ready, for an engine that is gone,
 * until the new agent has looked: an endpoint that refuses is waited for again.
 */
async function untilAnswered(question: Question, appliedAt: number, timeoutMs: number) {
  const { applied, prompt, connection, screen, signal } = question;
  const deadline = appliedAt + timeoutMs;
  for (;;) {
    const { endpoint } = await followUntilReady({
      connection,
      applied,
      screen,
      signal,
      startedAtMs: appliedAt,
      timeoutMs: deadline - performance.now(),
    });
    const readyMs = performance.now() - appliedAt;
    const within = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]);
    try {
      const reply = await askModel(endpoint, applied.service.metadata.name, prompt, within);
      const answerMs = performance.now() - appliedAt - readyMs;
      screen.done("ready", endpoint, readyMs);
      return { endpoint, reply, timings: { readyMs, answerMs } };
    } catch (error) {
      signal.throwIfAborted();
      if (!isRefused(error) || performance.now() > deadline) throw error;
      screen.line(`    nothing listens on ${endpoint} yet; asking again`);
      await pause(ASK_AGAIN_MS, undefined, { signal });
    }
  }
}

/** No connection at all; a question that got no answer in time is not asked again. */
function isRefused(error: unknown): boolean {
  if (!(error instanceof MetalbridgeError) || error.code !== "NoAnswer") return false;
  return error.cause instanceof Error && !["TimeoutError", "AbortError"].includes(error.cause.name);
}

function rounded<T extends Record<string, number>>(timings: T): T {
  return Object.fromEntries(Object.entries(timings).map(([name, ms]) => [name, Math.round(ms)])) as T;
}
