/** Stops the engines of a host permanently. The installed agent drains them, as with `--stop-engines`. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { MetalbridgeError } from "../src/api/errors.ts";
import { queryAgent } from "./agent-socket.ts";
import { agentCommand, agentEnvironment } from "./layout/agent-command.ts";
import type { InstallLayout } from "./layout/layout.ts";
import type { InstallPorts } from "./ports.ts";
import { pollUntil } from "./wait.ts";

const STARTS_WITHIN_MS = 30_000;

/**
 * Resolves when no engine is left. Throws EnginesRunning. Code of the account can signal this agent, so the agent shares
 * neither the terminal nor the session of root, and opens no inspector. When this process ends, the input of the agent also
 * ends, and the agent drains.
 */
export async function drainEngines(
  ports: InstallPorts,
  layout: InstallLayout,
  socket: string,
): Promise<void> {
  const [program = "", ...args] = [...agentCommand(layout), "--stop-engines", "--exit-with-stdin"];
  const account = layout.account === undefined ? undefined : await ports.accounts.observe(layout.account);
  const ids = account?.at === "present" && ports.euid === 0 ? { uid: account.uid, gid: account.gid } : {};
  const child = spawn(program, ["--disable-sigusr1", ...args], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
    cwd: "/",
    env: agentEnvironment(layout.stateDir),
    ...ids,
  });
  const exited = once(child, "exit").catch(() => undefined);
  const serves = async (): Promise<boolean> => {
    const agent = await queryAgent(socket);
    return (agent.at === "answers" && agent.phase === "serving") || child.exitCode !== null;
  };
  await pollUntil(ports.clock, STARTS_WITHIN_MS, serves);
  child.kill("SIGTERM");
  await exited;
  const left = await ports.countEngines(layout.stateDir);
  if (left !== 0) throw enginesRunning(layout, left, "did not stop");
}

/** Engines may run if they could not be counted. */
export function enginesRunning(
  { stateDir }: InstallLayout,
  count: number | undefined,
  predicate: string,
): MetalbridgeError {
  if (count !== undefined) return new MetalbridgeError("EnginesRunning", `${count} engines ${predicate}`);
  const message = `cannot determine whether engines run on this host: ${stateDir} could not be read`;
  return new MetalbridgeError("EnginesRunning", message, {
    summary:
      "make it and its files readable for the agent's account, and the folders above it, then run the command again",
  });
}
