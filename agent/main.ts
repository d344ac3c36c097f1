/** Runs the agent until a signal stops it. Engines are adopted and supervised before the first API request. */

import { once } from "node:events";
import { existsSync } from "node:fs";
import type { CatalogRecord } from "../fitness/catalog/record.ts";
import { renderAgentStatus } from "../src/api/agent-status.ts";
import type { MetalbridgeError } from "../src/api/errors.ts";
import { type Host, hostSchema } from "../src/api/host.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { excludeFromBackup } from "../src/macos/volume.ts";
import type { RunCommand } from "../src/util/command.ts";
import { defined } from "../src/util/defined.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { type Agent, type AgentInputs, openAgent } from "./agent.ts";
import { type Environment, readEnvironment } from "./config/environment.ts";
import type { AgentConfig } from "./config/schema.ts";
import { storeOptionsOf } from "./config/store-options.ts";
import { connectWithRetry } from "./credential/connect.ts";
import { joinedKubeconfigPath } from "./credential/file.ts";
import { renewCredential } from "./credential/renewal.ts";
import { dryRunAgent, requireReadable } from "./dry-run.ts";
import { keepAwake } from "./host/keep-awake.ts";
import { stopEngines } from "./instances/stop-engines.ts";
import type { MetricsFacts } from "./metrics/families/scrape.ts";
import { startServer } from "./metrics/server.ts";
import { hostStatusBody } from "./registration/host-status.ts";
import type { HostProblem } from "./registration/registration.ts";
import { startSession, USER_AGENT } from "./session.ts";
import { lockStateDir, type StateDirLock } from "./state-dir/lock.ts";

const LEASE_SECONDS = 40;

export interface AgentPorts {
  /** Stops the agent; engines keep running, or are drained first if so configured. */
  readonly signal: AbortSignal;
  /** A second request to stop: the drain no longer waits for requests in flight. */
  readonly atOnce?: AbortSignal;
  /** Prints the result of `--dry-run`. */
  readonly print: (text: string) => void;
  readonly log: Log;
  readonly clock?: Clock;
  readonly environment?: Environment;
  /** The models of llmfit's REST API; read at its first request. */
  readonly records?: () => Promise<readonly CatalogRecord[]>;
  /** Called once the loopback server listens. */
  readonly onListening?: (port: number) => void;
  /** For remoteAccess.doctor. */
  readonly doctor?: AgentInputs["doctor"];
}

/** Resolves after the signal was aborted. Rejects if the agent cannot start: state folder, port, dry run without a cluster. */
export async function runAgent(config: AgentConfig, ports: AgentPorts): Promise<void> {
  const environment = ports.environment ?? readEnvironment();
  const { log, clock = systemClock, doctor } = ports;
  const life = new AbortController();
  const end = new AbortController();
  const { signal } = life;
  const inputs: AgentInputs = { config, environment, log, clock, signal, endSignal: end.signal, doctor };
  if (config.dryRun) {
    await requireReadable(config.stateDir);
    const agent = await openAgent(inputs);
    const { kubeconfig: kubeconfigPath, context } = config;
    return dryRunAgent({ ...config, kubeconfigPath, context }, agent, ports.print).finally(() =>
      agent.runner.stop(),
    );
  }
  const starting = renderReply(environment, "starting", []);
  const lock = await lockStateDir(config.stateDir, environment.tempDir, starting);
  try {
    await runUntilStopped(inputs, ports, { life, lock });
  } finally {
    life.abort();
    end.abort();
    await lock.release();
  }
}

/** The reply by which an upgrade checks this version. */
function renderReply(
  { agentVersion: version }: Environment,
  phase: "starting" | "serving",
  problems: readonly HostProblem[],
): string {
  return renderAgentStatus({ pid: process.pid, version, phase, troubles: problems.map(({ code }) => code) });
}

/** Lease, watch and supervision continue during a drain: `life` is aborted after it. */
async function runUntilStopped(
  inputs: AgentInputs,
  ports: AgentPorts,
  { life, lock }: { readonly life: AbortController; readonly lock: StateDirLock },
): Promise<void> {
  const { config, clock, log, environment } = inputs;
  const { signal } = ports;
  const agent = await openAgent(inputs);
  watchMachine(agent);
  // Before the adoption, so that an agent whose port is taken exits without having touched an engine.
  const port = await serve(inputs, agent);
  if (config.llmfit.enabled) await serveLlmfitOf(inputs, agent, ports.records);
  await agent.runner.adopt();
  void agent.benchmark.begin();
  const isAllKnown = () => agent.runner.knowsAllEngines();
  await Promise.all([
    agent.instances.daemons.stopUnused(isAllKnown),
    agent.gate.begin(),
    agent.transport.begin(),
    agent.models.begin(),
  ]);
  const adopted = agent.runner.snapshot();
  log.info(
    { engines: adopted.filter(({ pid }) => pid !== undefined).length, stateDir: config.stateDir },
    "agent started",
  );
  ports.onListening?.(port);
  lock.answerWith(() => renderReply(environment, "serving", agent.state.problems(agent.address())));
  const { context } = config;
  const joined = joinedKubeconfigPath(config.stateDir);
  const path = () => config.kubeconfig ?? (existsSync(joined) ? joined : undefined);
  const { state, apiRequests } = agent;
  const onAnswer = (verb: string, status: number) => apiRequests.add({ verb, code: String(status) });
  const connection = await connectWithRetry(
    () => ({ kubeconfigPath: path(), context, userAgent: USER_AGENT, onResponse: onAnswer }),
    { clock, log, signal, onFailure: (problem) => state.setConnectProblem(problem) },
  );
  if (connection !== undefined) {
    state.setConnectProblem(undefined);
    const used = path();
    const onRenewal = (problem: MetalbridgeError | undefined) => state.setCredential({ problem });
    if (used !== undefined)
      renewCredential({ connection, path: used, clock, log, signal: life.signal, onRenewal });
    await startSession(agent, connection);
  }
  if (!signal.aborted) await once(signal, "abort");
  if (config.stopEngines) await agent.runner.endEngines(ports.atOnce ?? new AbortController().signal);
  const engines = agent.runner.snapshot().filter(({ pid }) => pid !== undefined).length;
  life.abort();
  await Promise.all([agent.runner.stop(), agent.benchmark.stop()]);
  await Promise.all([agent.cachedHost.settled(), agent.gate.settled()]);
  agent.gate.close();
  if (config.stopEngines) await stopEngines(config.stateDir, { instances: agent.instances, clock, log });
  else log.info({ engines, leaseSeconds: LEASE_SECONDS }, enginesKeepRunning(engines));
  connection?.close();
  log.info({ version: environment.agentVersion }, "agent exited");
}

/** Starts reading the machine, which takes longer than adopting engines and is not awaited. No replica is admitted before the first reading. */
function watchMachine(agent: Agent): void {
  const { config, environment, clock, log, signal } = agent.inputs;
  const { observe, pressure, runner, benchmark, state, run } = agent;
  observe().then(
    () => runner.enqueueAll(),
    (err: unknown) => log.error({ err }, "cannot read this machine"),
  );
  void pressure.start({ runner, mayEvict: () => state.host()?.spec.memory.evictionEnabled ?? true });
  if (config.platform !== "darwin") return;
  const hasEngines = (): boolean =>
    benchmark.isRunning() || runner.snapshot().some(({ pid }) => pid !== undefined);
  keepAwake({ path: environment.toolPath, hasEngines, clock, log, signal });
  void warnOfBackup(storeOptionsOf(config).dir, run, log);
}

async function warnOfBackup(folder: string, run: RunCommand, log: Log): Promise<void> {
  if (await excludeFromBackup(run, folder)) return;
  log.warn({ folder }, "Time Machine backs up the models; exclude the folder in its settings");
}

function serve({ config, clock, signal, log }: AgentInputs, agent: Agent): Promise<number> {
  const { state, runner, gate } = agent;
  const { metricsPort: port, metricsAddress: address, metricsTokenFile: tokenFile } = config;
  const { flexinferMetricNames } = config;
  return startServer({
    clock,
    log,
    signal,
    problems: () => state.problems(agent.address()),
    facts: () => factsOf(agent),
    readEngines: (timeoutMs) => runner.readEngines(timeoutMs),
    readGate: (timeoutMs) => gate.read(timeoutMs),
    flexinferMetricNames,
    port,
    outside: address === undefined || tokenFile === undefined ? undefined : { address, port, tokenFile },
  });
}

function factsOf({ inputs, state, runner, startedAtMs, apiRequests, downloaded }: Agent): MetricsFacts {
  const { config, environment } = inputs;
  const machine = state.machine();
  const session = state.session();
  return {
    hostName: config.hostName,
    version: environment.agentVersion,
    startedAtMs,
    replicas: runner.snapshot(),
    counts: runner.counts(),
    memory: machine?.memory,
    disk: machine?.disk,
    diskReserveBytes: config.disk.reserve,
    downloadedBytes: downloaded.bytes,
    apiRequests,
    claimedBytes: runner.claimedBytes(),
    budgetBytes: state.memoryBudget(),
    isNameOurs: session?.isNameOurs() ?? false,
    isSynced: state.isSynced(),
    watchAgeMs: session?.watchAgeMs(),
  };
}

/** Loads the module only if llmfit is enabled, because an idle agent must be small. */
async function serveLlmfitOf(
  { config, clock, log, signal }: AgentInputs,
  agent: Agent,
  records: AgentPorts["records"] = async () => [],
): Promise<void> {
  const [{ serveLlmfit }, { factsOfHost }, { createLlmfitRest }] = await Promise.all([
    import("./metrics/llmfit.ts"),
    import("../fitness/llmfit/rest/host-facts.ts"),
    import("../fitness/llmfit/rest/rest.ts"),
  ]);
  const facts = async () => factsOfHost(await describeHost(agent));
  const load = async () => createLlmfitRest(await records());
  serveLlmfit({ clock, log, signal, ...config.llmfit, facts, load });
}

/** The current Host of this machine, even if the cluster has none. */
async function describeHost({ inputs, state, observe }: Agent): Promise<Host> {
  const seen = await observe();
  const host = state.host() ?? hostSchema.parse({ metadata: { name: inputs.config.hostName } });
  const { status = {} } = hostStatusBody(host, seen, new Date(inputs.clock.nowMs()).toISOString());
  return { ...host, status: { ...host.status, ...defined(status) } };
}

function enginesKeepRunning(engines: number): string {
  if (engines === 0) return "agent stopped; no engine was running";
  const keep = engines === 1 ? "1 engine keeps running" : `${engines} engines keep running`;
  return `agent stopped; ${keep}; start it within ${LEASE_SECONDS} s or they leave their Services`;
}
