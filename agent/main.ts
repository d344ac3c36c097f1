/** Runs the agent until it is asked to stop. Engines are adopted and supervised before the first API request. */

import { existsSync } from "node:fs";
import type { CatalogRecord } from "../fitness/catalog/record.ts";
import { renderAgentReply } from "../src/api/agent-answer.ts";
import type { MetalbridgeError } from "../src/api/errors.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { Agent, type AgentInputs } from "./agent.ts";
import { type Environment, readEnvironment } from "./config/environment.ts";
import type { AgentConfig } from "./config/schema.ts";
import { connectWithRetry } from "./credential/connect.ts";
import { joinedKubeconfigPath } from "./credential/file.ts";
import { renewCredential } from "./credential/renewal.ts";
import { dryRunAgent, requireReadable } from "./dry-run.ts";
import { stopEngines } from "./instances/stop-engines.ts";
import { startServer } from "./metrics/server.ts";
import { USER_AGENT } from "./session.ts";
import { lockStateDir } from "./state-dir/lock.ts";

const LEASE_SECONDS = 40;

export interface AgentPorts {
  /** Stops the agent; engines keep running, or are drained first if so configured. */
  readonly signal: AbortSignal;
  /** A second request to stop: the drain no longer waits for requests in flight. */
  readonly atOnce?: AbortSignal;
  /** For `--dry-run`. */
  readonly print: (text: string) => void;
  readonly log: Log;
  readonly clock?: Clock;
  readonly environment?: Environment;
  /** The models that llmfit's REST API answers about; read at its first request. */
  readonly records?: () => Promise<readonly CatalogRecord[]>;
  /** Once the loopback server listens. */
  readonly onListening?: (port: number) => void;
  /** For remoteAccess.doctor. */
  readonly doctor?: AgentInputs["doctor"];
}

/** Resolves after the signal was aborted. Rejects if it cannot start: state folder, port, dry run without a cluster. */
export async function runAgent(config: AgentConfig, ports: AgentPorts): Promise<void> {
  const environment = ports.environment ?? readEnvironment();
  const { log, clock = systemClock, doctor } = ports;
  const life = new AbortController();
  const end = new AbortController();
  const { signal } = life;
  const inputs: AgentInputs = { config, environment, log, clock, signal, endSignal: end.signal, doctor };
  if (config.dryRun) {
    await requireReadable(config.stateDir);
    const agent = await Agent.open(inputs);
    const { kubeconfig: kubeconfigPath, context } = config;
    return dryRunAgent({ ...config, kubeconfigPath, context }, agent, ports.print).finally(() =>
      agent.runner.stop(),
    );
  }
  let serving: Agent | undefined;
  const lock = await lockStateDir(config.stateDir, environment.tempDir, () => answerOf(environment, serving));
  try {
    await live(inputs, { ...ports, onServing: (agent) => (serving = agent) }, life);
  } finally {
    life.abort();
    end.abort();
    await lock.release();
  }
}

/** What an upgrade judges this version by. */
function answerOf({ agentVersion: version }: Environment, serving: Agent | undefined): string {
  const phase = serving === undefined ? "starting" : "serving";
  const troubles = serving?.troubles().map(({ code }) => code) ?? [];
  return renderAgentReply({ pid: process.pid, version, phase, troubles });
}

/** Lease, watch and supervision continue through a drain: `life` is aborted after it. */
async function live(
  inputs: AgentInputs,
  ports: AgentPorts & { readonly onServing: (agent: Agent) => void },
  life: AbortController,
): Promise<void> {
  const { config, clock, log, environment } = inputs;
  const { signal } = ports;
  const agent = await Agent.open(inputs);
  // Before anything is adopted: an agent whose port is taken exits without having touched an engine.
  const port = await serve(inputs, agent);
  if (config.llmfit.enabled) await serveLlmfitOf(inputs, agent, ports.records);
  await agent.runner.adopt();
  const isAllKnown = () => agent.runner.knowsAllEngines();
  await Promise.all([
    agent.instances.daemons.stopUnused(isAllKnown),
    agent.gate.begin(),
    agent.models.begin(),
  ]);
  const adopted = agent.runner.snapshot();
  log.info(
    { engines: adopted.filter(({ pid }) => pid !== undefined).length, stateDir: config.stateDir },
    "agent started",
  );
  ports.onListening?.(port);
  ports.onServing(agent);
  const { context } = config;
  const joined = joinedKubeconfigPath(config.stateDir);
  const path = () => config.kubeconfig ?? (existsSync(joined) ? joined : undefined);
  const onAnswer = (...answer: [string, number]) => agent.countAnswer(...answer);
  const connection = await connectWithRetry(
    () => ({ kubeconfigPath: path(), context, userAgent: USER_AGENT, onAnswer }),
    { clock, log, signal, onTrouble: (connectTrouble) => agent.note({ connectTrouble }) },
  );
  if (connection !== undefined) {
    const used = path();
    const onRenewal = (trouble: MetalbridgeError | undefined) => agent.note({ credential: { trouble } });
    if (used !== undefined)
      renewCredential({ connection, path: used, clock, log, signal: life.signal, onRenewal });
    await agent.attach(connection);
  }
  await whenAborted(signal);
  if (config.stopEngines) await agent.runner.endEngines(ports.atOnce ?? new AbortController().signal);
  const engines = agent.runner.snapshot().filter(({ pid }) => pid !== undefined).length;
  life.abort();
  await agent.runner.stop();
  await Promise.all([agent.settled(), agent.gate.settled()]);
  agent.gate.close();
  if (config.stopEngines) await stopEngines(config.stateDir, { instances: agent.instances, clock, log });
  else log.info({ engines, leaseSeconds: LEASE_SECONDS }, enginesKeepRunning(engines));
  connection?.close();
  log.info({ version: environment.agentVersion }, "agent exited");
}

function serve({ config, clock, signal, log }: AgentInputs, agent: Agent): Promise<number> {
  const troubles = () => agent.troubles();
  const facts = () => agent.facts();
  const { metricsPort: port, metricsAddress: address, metricsTokenFile: tokenFile } = config;
  const outside = address === undefined || tokenFile === undefined ? undefined : { address, port, tokenFile };
  const readEngines = (timeoutMs: number) => agent.runner.readEngines(timeoutMs);
  const readGate = (timeoutMs: number) => agent.gate.read(timeoutMs);
  return startServer({ clock, log, signal, troubles, facts, readEngines, readGate, port, outside });
}

/** Loaded only where it is asked for: an idle agent must be small. */
async function serveLlmfitOf(
  { config, clock, log, signal }: AgentInputs,
  agent: Agent,
  records: AgentPorts["records"] = async () => [],
): Promise<void> {
  const [{ serveLlmfit }, { factsOfHost }] = await Promise.all([
    import("./metrics/llmfit.ts"),
    import("../fitness/llmfit/rest/host-facts.ts"),
  ]);
  const facts = async () => factsOfHost(await agent.describe());
  serveLlmfit({ clock, log, signal, ...config.llmfit, facts, records });
}

function enginesKeepRunning(engines: number): string {
  if (engines === 0) return "agent stopped; no engine was running";
  const keep = engines === 1 ? "1 engine keeps running" : `${engines} engines keep running`;
  return `agent stopped; ${keep}; start it within ${LEASE_SECONDS} s or they leave their Services`;
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
