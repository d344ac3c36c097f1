/** The complete system on this machine: control plane in this process, controller, agent and gateway as child processes. */
import { hostname } from "node:os";
import { join } from "node:path";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { type ChildProgram, type KeptProgram, keepChild, logTail, startChild } from "../children.ts";
import { consoleAddress, planConsole, startConsole } from "../console.ts";
import { readPartsConfig } from "../control-plane/config.ts";
import { openControlPlane } from "../control-plane/open.ts";
import { findClusterParts } from "../control-plane/parts.ts";
import type { GatewayPlan } from "../gateway.ts";
import { createTerminalLog } from "../terminal-log.ts";

export interface DemoSystem {
  readonly connection: KubeConnection;
  readonly kubeconfig: string;
  readonly hostName: string;
  /** Starts controller, agent and gateway. */
  readonly startParts: () => void;
  /** Starts the console. Resolves with its address; with undefined if it does not start. */
  readonly startConsole: () => Promise<string | undefined>;
  /** Rejects when a part exits unexpectedly; never resolves. */
  readonly partFailed: Promise<never>;
  /** Stops engines first and the control plane last. Safe to call again. */
  readonly stop: () => Promise<void>;
}

export interface DemoSystemOptions {
  readonly dir: string;
  readonly address: string;
  /** Flags that pass the engine to the agent. */
  readonly engineFlags: readonly string[];
  readonly modelRoots: readonly string[];
  readonly allowNetworks: string;
  /** Absent without Envoy. */
  readonly gateway: GatewayPlan | undefined;
  readonly signal: AbortSignal;
  /** Called when another process requests a stop (`metalbridge down`). */
  readonly onStopOrder: () => void;
}

type Part = KeptProgram & Partial<Pick<ChildProgram, "restart">>;

/** Time for the agent to drain its engines. A TERM after that ends the drain at once. */
const AGENT_GRACE_MS = 8_000;
/** Time for an agent that must start first on a busy machine, because any engine that it does not stop outlives the demo. */
const NEXT_AGENT_GRACE_MS = 30_000;
const CONTROLLER_GRACE_MS = 3_000;

/** Opens the control plane. After a failure, nothing is left running. */
export async function openDemoSystem(options: DemoSystemOptions): Promise<DemoSystem> {
  let stopped: Promise<void> | undefined;
  let agentDied = false;
  const children: Part[] = [];
  const { promise: partFailed, reject: failParts } = Promise.withResolvers<never>();
  partFailed.catch(() => {}); // Avoids an unhandled rejection while no caller is waiting.
  const opened = await openControlPlane({
    dir: join(options.dir, "control-plane"),
    parts: findClusterParts(readPartsConfig()),
    crds: customResourceDefinitions(),
    log: createTerminalLog(writeErr),
    signal: options.signal,
    onStopOrder: async () => {
      options.onStopOrder();
      await stop();
    },
  });
  const stop = () => {
    stopped ??= stopAll(children, opened.close, agentDied);
    return stopped;
  };
  const connection = await connect({
    kubeconfigPath: opened.controlPlane.kubeconfig,
    userAgent: "metalbridge-demo",
  });
  const hostName = hostNameOf(hostname());
  return {
    connection,
    kubeconfig: opened.controlPlane.kubeconfig,
    hostName,
    partFailed,
    startParts: () => {
      for (const child of startParts(opened.controlPlane.kubeconfig, hostName, options)) {
        children.push(child);
        void child.ended.then((exit) => {
          if (stopped !== undefined) return;
          if (child.name === "agent") agentDied = true;
          const message = `${exit}; the end of ${child.logFile}:\n${logTail(child, 5)}`;
          failParts(new MetalbridgeError("DemoPartEnded", message));
        });
      }
    },
    startConsole: async () => {
      const plan = await planConsole(options.dir, options.gateway);
      if (stopped !== undefined) return undefined;
      const child = startConsole(plan, opened.controlPlane.kubeconfig, printErr);
      children.push(child);
      return Promise.race([
        consoleAddress(plan.addressFile, options.signal),
        child.ended.then(() => undefined),
      ]);
    },
    stop: async () => {
      await stop();
      connection.close();
    },
  };
}

function startParts(kubeconfig: string, hostName: string, options: DemoSystemOptions): readonly Part[] {
  const logs = join(options.dir, "logs");
  const shared = ["--kubeconfig", kubeconfig, "--exit-with-stdin"];
  const agent = ["agent", ...shared, "--stop-engines", "--register", "--host-name", hostName];
  agent.push("--address", options.address, "--state-dir", join(options.dir, "agent"));
  agent.push(...options.engineFlags);
  for (const root of options.modelRoots) agent.push("--model-root", root);
  const gateway = options.gateway && ["gateway", ...shared, ...options.gateway.args];
  return [
    ...(gateway === undefined ? [] : [keepChild("gateway", gateway, join(logs, "gateway.log"), printErr)]),
    startChild(
      "controller",
      ["controller", ...shared, ...controllerFlags(options)],
      join(logs, "controller.log"),
    ),
    startChild("agent", agent, join(logs, "agent.log")),
  ];
}

/** Agents allow private networks anyway. */
export function controllerFlags({ allowNetworks }: Pick<DemoSystemOptions, "allowNetworks">): string[] {
  return ["--health-port", "0", "--allow-networks", allowNetworks];
}

async function stopAll(
  children: readonly Part[],
  closeControlPlane: () => Promise<void>,
  agentDied: boolean,
): Promise<void> {
  // Engines outlive a killed agent, so another agent is started to adopt and stop them.
  const agent = children.find(({ name }) => name === "agent");
  if (agentDied) await agent?.restart?.().stop(NEXT_AGENT_GRACE_MS);
  await Promise.all(
    children.map((child) => child.stop(child.name === "agent" ? AGENT_GRACE_MS : CONTROLLER_GRACE_MS)),
  );
  await closeControlPlane();
}

function writeErr(text: string): void {
  process.stderr.write(text);
}

function printErr(line: string): void {
  writeErr(`${line}\n`);
}

/** This machine's name as a DNS label. */
function hostNameOf(name: string): string {
  const first = name.split(".")[0] ?? "";
  const label = first
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, "-")
    .replaceAll(/^-+|-+$/g, "")
    .slice(0, 63);
  return label === "" ? "this-machine" : label;
}
