/** Runs the demo: control plane, controller, agent, Model, InferenceService, and one request. */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { readPartsConfig } from "../control-plane/config.ts";
import { findEnvoy } from "../control-plane/engine-programs.ts";
import { CONTROL_PLANE_FREE_BYTES, requireFreeSpace } from "../control-plane/state/disk.ts";
import { type GatewayPlan, planGateway, untilGatewayAnswers } from "../gateway.ts";
import { machineAddress } from "./address.ts";
import { applyManifests, updateHostAddress } from "./apply.ts";
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
  /** CIDRs, separated by commas. */
  readonly allowNetworks: string;
  readonly userJwtSecretFile?: string;
}

/** A fleet runs whether its demo service answers or not: a restored one may be idle, stopped or failed, or ask for keys. */
export interface DemoResult extends DemoResponse {
  /** Base URL of the gateway. Absent without Envoy. */
  readonly baseUrl?: string | undefined;
  readonly timings: Readonly<Record<string, number>>;
}

interface DemoResponse {
  /** False with `error`, and while the service is turned off. */
  readonly ready: boolean;
  readonly endpoint?: string | undefined;
  readonly reply?: string | undefined;
  /** True if the gateway refused the request because it had no key. */
  readonly needsKey?: boolean;
  readonly error?: MetalbridgeError;
  /** `readyMs` and `answerMs`, as far as it came. */
  readonly timings: Readonly<Record<string, number>>;
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

/** Default of `disk.reserve`. With less free space, the agent reports DiskPressure and no replica is scheduled. */
const AGENT_RESERVE_BYTES = 5 * 2 ** 30;
const SPACE_REASON = "the agent keeps 5 GiB free for other programs, and the control plane needs the rest";
const ANSWER_TIMEOUT_MS = 120_000;
const RETRY_MS = 500;

/** Leaves everything running. After a failure, all started parts are stopped. */
export async function runDemo(options: DemoOptions, ports: DemoPorts): Promise<RunningDemo> {
  const { screen, signal } = ports;
  const startedAt = performance.now();
  const address = machineAddress(undefined, options.address);
  const engine = engineFlags(options.engine, readPartsConfig());
  await requireFreeSpace(options.dir, AGENT_RESERVE_BYTES + CONTROL_PLANE_FREE_BYTES, SPACE_REASON);
  const { source, path } = await demoSource(options);
  const manifests = await readDemoManifests(source, options.engine);
  screen.title(`Metalbridge: a model on this machine, behind a Kubernetes Service   (state: ${options.dir})`);
  const envoy = findEnvoy(readPartsConfig());
  const { dir, userJwtSecretFile } = options;
  const gateway = envoy === undefined ? undefined : await planGateway(dir, envoy, { userJwtSecretFile });
  const system = await openDemoSystem({
    dir: options.dir,
    address,
    gateway,
    engineFlags: engine,
    allowNetworks: options.allowNetworks,
    modelRoots: [join(options.dir, "models"), ...(path === undefined ? [] : [path])],
    signal,
    onStopOrder: ports.requestStop,
  });
  try {
    const controlPlaneMs = performance.now() - startedAt;
    screen.done("control plane", "real kube-apiserver and etcd, on loopback", controlPlaneMs);
    system.startParts();
    const served = serve(system, { manifests, gateway, address }, options, ports);
    const result = await Promise.race([served, system.partFailed]);
    const timings = { controlPlaneMs, ...result.timings, totalMs: performance.now() - startedAt };
    return { system, result: { ...result, timings: rounded(timings) } };
  } catch (error) {
    await system.stop();
    throw error;
  }
}

interface DemoParts {
  readonly manifests: DemoManifests;
  readonly gateway: GatewayPlan | undefined;
  readonly address: string;
}

async function serve(
  { connection, hostName }: DemoSystem,
  { manifests, gateway, address }: DemoParts,
  options: DemoOptions,
  { screen, signal }: DemoPorts,
) {
  const client = createClient(connection);
  const appliedAt = performance.now();
  if (await updateHostAddress(client, hostName, address))
    screen.line(`    this machine has another address than in the last run: ${address}`);
  const { applied, preserved } = await applyManifests(client, manifests, options);
  const { source } = applied.model.spec;
  screen.done("applied", "Model/quickstart, InferenceService/quickstart", performance.now() - appliedAt);
  const isGenerated = options.model === undefined && source === manifests.model.spec.source;
  screen.line(`    weights: ${source}${isGenerated ? " (generated: a real engine, meaningless words)" : ""}`);
  if (preserved.length > 0) screen.line(`    kept as you changed it: ${preserved.join(", ")}`);
  const gatewayAt = performance.now();
  if (gateway === undefined)
    screen.line("    no Envoy, so there is no gateway; to install it: npm run setup");
  else {
    await untilGatewayAnswers(gateway, signal);
    screen.done("gateway", `${gateway.url}/v1`, performance.now() - gatewayAt);
  }
  const answer = await askService({ applied, gateway, connection, appliedAt, options, screen, signal });
  return { ...answer, baseUrl: gateway && `${gateway.url}/v1` };
}

interface DemoRequest {
  readonly applied: AppliedObjects;
  readonly gateway: GatewayPlan | undefined;
  readonly connection: KubeConnection;
  /** Monotonic. */
  readonly appliedAt: number;
  readonly options: DemoOptions;
  readonly screen: DemoScreen;
  readonly signal: AbortSignal;
}

/** With `--once`, a service that does not answer is a failure. Otherwise it is reported, and the fleet continues. */
async function askService(request: DemoRequest): Promise<DemoResponse> {
  const { applied, options, screen, signal } = request;
  try {
    requireTurnedOn(applied);
    return await requestUntilAnswered(request);
  } catch (error) {
    const isExpected = error instanceof MetalbridgeError && !signal.aborted;
    if (!isExpected || options.once === true) throw error;
    const { summary, command } = error.remedy;
    screen.line(`    ${error.message}`);
    screen.line(`    To do: ${command ?? summary}`);
    return { ready: false, error, timings: {} };
  }
}

/** Throws `DemoNotReady` if the user has scaled the service to 0 or suspended it. */
function requireTurnedOn({ service: { spec } }: AppliedObjects): void {
  if (spec.replicas !== 0 && spec.suspend !== true) return;
  const [what, command] =
    spec.suspend === true
      ? ["suspended", `kubectl patch isvc/quickstart --type merge -p '{"spec":{"suspend":false}}'`]
      : ["scaled to 0", "kubectl scale isvc/quickstart --replicas 1"];
  throw new MetalbridgeError("DemoNotReady", `the service is ${what}, as you left it`, {
    summary: "start without --once, and change it in another terminal",
    command,
  });
}

/**
 * Waits for the service and sends the request. After a killed demo, the objects still report Ready for an engine that has
 * exited, until the new agent updates them. For a refused connection, this function waits again.
 */
async function requestUntilAnswered(request: DemoRequest): Promise<DemoResponse> {
  const { applied, connection, appliedAt, options, screen, signal } = request;
  const deadline = appliedAt + options.timeoutSeconds * 1_000;
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
    try {
      const { reply, needsKey, how } = await requestOnce(request, endpoint);
      const answerMs = performance.now() - appliedAt - readyMs;
      screen.done("ready", endpoint ?? "idle; the next request loads the model", readyMs);
      if (reply === undefined) screen.line(`    not asked: ${how}`);
      else screen.done("answered", how, answerMs);
      return { ready: true, endpoint, reply, needsKey, timings: { readyMs, answerMs } };
    } catch (error) {
      signal.throwIfAborted();
      if (!isTemporary(error) || performance.now() > deadline) throw error;
      screen.line(`    no engine answers on ${endpoint ?? "the gateway"} yet; retrying`);
      await pause(RETRY_MS, undefined, { signal });
    }
  }
}

/** Asks the gateway, and the engine itself if the gateway requires a key or there is none. Without a reply, `how` is the reason. */
async function requestOnce(
  { applied, gateway, options, signal }: DemoRequest,
  endpoint: string | undefined,
): Promise<{ readonly reply?: string; readonly needsKey: boolean; readonly how: string }> {
  const requestSignal = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]);
  const ask = (url: string) =>
    requestCompletion(url, applied.service.metadata.name, options.prompt, requestSignal);
  const answer = gateway && (await ask(gateway.url));
  if (answer !== undefined) return { reply: answer, needsKey: false, how: "request through the gateway" };
  const needsKey = gateway !== undefined;
  const direct = endpoint && (await ask(endpoint));
  if (direct !== undefined)
    return { reply: direct, needsKey, how: "request to the address in the EndpointSlice" };
  const isIdle = endpoint === undefined && !needsKey;
  return { needsKey: !isIdle, how: isIdle ? "there is no gateway" : "a key is required" };
}

/** True if there was no connection, or no engine behind the gateway. A request that timed out is not retried. */
function isTemporary(error: unknown): boolean {
  if (!(error instanceof MetalbridgeError) || error.code !== "NoAnswer") return false;
  return error.cause instanceof Error && !["TimeoutError", "AbortError"].includes(error.cause.name);
}

function rounded<T extends Record<string, number>>(timings: T): T {
  return Object.fromEntries(Object.entries(timings).map(([name, ms]) => [name, Math.round(ms)])) as T;
}

const completion = z.object({
  choices: z.array(z.object({ message: z.object({ content: z.string() }) })).min(1),
});

/**
 * `endpoint` is `http://address:port`. Throws `NoAnswer`, with a cause if a retry can succeed: no connection, or 503. Undefined if it
 * asks for a key.
 */
async function requestCompletion(
  endpoint: string,
  model: string,
  prompt: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const response = await fetch(`${endpoint}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: prompt }], max_tokens: 64 }),
    signal,
  }).catch((cause: unknown) => {
    throw new MetalbridgeError("NoAnswer", `${endpoint} did not answer`, undefined, { cause });
  });
  if (response.status === 401) return undefined;
  const body: unknown = await response.json().catch(() => undefined);
  const parsed = completion.safeParse(body);
  const first = parsed.success ? parsed.data.choices[0] : undefined;
  if (first === undefined) {
    const message = `${endpoint} answered ${response.status} ${JSON.stringify(body)?.slice(0, 300)}`;
    // From the gateway, while it does not know yet that an engine of an earlier run has exited.
    const cause = response.status === 503 ? new Error("unavailable") : undefined;
    throw new MetalbridgeError("NoAnswer", message, undefined, { cause });
  }
  return first.message.content.trim();
}
