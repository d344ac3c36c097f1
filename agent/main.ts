/** Runs the agent until it is told to end. Engines are adopted and supervised before the cluster is asked. */
import { systemClock } from "../src/kube/system-clock.ts";
import type { Clock, Log } from "../src/ports.ts";
import { type Assembled, assemble } from "./assemble.ts";
import { type Environment, readEnvironment } from "./config/environment.ts";
import type { AgentConfig } from "./config/schema.ts";
import { connectPatiently } from "./connect.ts";
import { dryRun, requireReadable } from "./dry-run.ts";
import type { Wiring } from "./parts.ts";
import { startServer } from "./server/listen.ts";
import { USER_AGENT } from "./session.ts";
import { lockStateDir } from "./single.ts";
import { stopEngines } from "./stop-engines.ts";

const LEASE_SECONDS = 40;
const LEAVES_ENGINES =
  "agent ends; its engines run on and are adopted by the next start, and leave their Services when its Lease is over";

export interface AgentPorts {
  /** Ends the agent; engines run on, or are drained first where the configuration says so. */
  readonly signal: AbortSignal;
  /** Asked a second time: that drain waits for no request any more. */
  readonly atOnce?: AbortSignal;
  /** For `--dry-run`. */
  readonly print: (text: string) => void;
  readonly log: Log;
  readonly clock?: Clock;
  readonly environment?: Environment;
  /** Once the loopback server listens. */
  readonly onListening?: (port: number) => void;
}

/** Resolves after the signal was aborted. Rejects where it cannot begin: state folder, port, dry run without a cluster. */
export async function runAgent(config: AgentConfig, ports: AgentPorts): Promise<void> {
  const environment = ports.environment ?? readEnvironment();
  const { log, clock = systemClock } = ports;
  const life = new AbortController();
  const end = new AbortController();
  const wiring: Wiring = { config, environment, log, clock, signal: life.signal, endSignal: end.signal };
  if (config.dryRun) {
    await requireReadable(config.stateDir);
    const agent = await assemble(wiring);
    const { kubeconfig: kubeconfigPath, context, hostName } = config;
    return dryRun({ kubeconfigPath, context, hostName }, agent, ports.print).finally(() =>
      agent.runner.stop(),
    );
  }
  const lock = await lockStateDir(config.stateDir, environment.tempDir);
  try {
    await live(wiring, ports, life);
  } finally {
    life.abort();
    end.abort();
    await lock.release();
  }
}

/** Lease, watch and supervision go on through a drain: what makes `life` ends after it. */
async function live(wiring: Wiring, ports: AgentPorts, life: AbortController): Promise<void> {
  const { config, clock, log, environment } = wiring;
  const { signal } = ports;
  const agent = await assemble(wiring);
  await agent.runner.adopt();
  const adopted = agent.runner.snapshot();
  log.info(
    { engines: adopted.filter(({ pid }) => pid !== undefined).length, stateDir: config.stateDir },
    "agent started",
  );
  await listen(wiring, agent, ports);
  const { kubeconfig: kubeconfigPath, context } = config;
  const connection = await connectPatiently(
    { kubeconfigPath, context, userAgent: USER_AGENT, onAnswer: agent.countAnswer },
    { clock, log, signal, onTrouble: agent.setConnectTrouble },
  );
  if (connection !== undefined) await agent.attach(connection);
  await whenAborted(signal);
  if (config.stopEngines) await agent.runner.endEngines(ports.atOnce ?? new AbortController().signal);
  const engines = agent.runner.snapshot().filter(({ pid }) => pid !== undefined).length;
  life.abort();
  await agent.runner.stop();
  await agent.settled();
  if (config.stopEngines) await stopEngines(config.stateDir, { ...agent, clock, log });
  else log.info({ engines, leaseSeconds: LEASE_SECONDS }, LEAVES_ENGINES);
  connection?.close();
  log.info({ version: environment.agentVersion }, "agent ended");
}

async function listen(
  { config, clock, signal, log }: Wiring,
  agent: Assembled,
  ports: AgentPorts,
): Promise<void> {
  const { troubles, facts } = agent;
  const { metricsPort: port, metricsAddress: address, metricsTokenFile: tokenFile } = config;
  const outside = address === undefined || tokenFile === undefined ? undefined : { address, port, tokenFile };
  const readEngines = (timeoutMs: number) => agent.runner.readEngines(timeoutMs);
  const bound = await startServer({ clock, log, signal, troubles, facts, readEngines, port, outside });
  ports.onListening?.(bound);
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
