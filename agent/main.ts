/** Runs the agent until it is told to end. Engines are adopted and supervised before the cluster is asked. */
import { systemClock } from "../src/kube/system-clock.ts";
import type { Clock, Log } from "../src/ports.ts";
import { type Assembled, assemble, type Wiring } from "./assemble.ts";
import { type Environment, readEnvironment } from "./config/environment.ts";
import type { AgentConfig } from "./config/schema.ts";
import { connectPatiently } from "./connect.ts";
import { dryRun } from "./dry-run.ts";
import { startServer } from "./server/listen.ts";
import { USER_AGENT } from "./session.ts";
import { lockStateDir } from "./single.ts";
import { stopEngines } from "./stop-engines.ts";

export interface AgentPorts {
  /** Ends the agent; engines run on. */
  readonly signal: AbortSignal;
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
  const { signal, log, clock = systemClock } = ports;
  const end = new AbortController();
  const wiring: Wiring = { config, environment, log, clock, signal, endSignal: end.signal };
  if (config.dryRun) {
    const agent = await assemble(wiring);
    const { kubeconfig: kubeconfigPath, context, hostName } = config;
    return dryRun({ kubeconfigPath, context, hostName }, agent, ports.print).finally(() =>
      agent.runner.stop(),
    );
  }
  const lock = await lockStateDir(config.stateDir, environment.tempDir);
  try {
    await live(wiring, ports);
  } finally {
    end.abort();
    await lock.release();
  }
}

async function live(wiring: Wiring, ports: AgentPorts): Promise<void> {
  const { config, clock, log, signal, environment } = wiring;
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
  const running = agent.runner.snapshot().filter(({ pid }) => pid !== undefined);
  await agent.runner.stop();
  if (config.stopEngines) {
    await agent.sayGoodbye();
    await stopEngines(config.stateDir, { ...agent, clock, log });
  } else {
    log.info({ engines: running.length }, "agent ends; its engines run on and are adopted by the next start");
  }
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
