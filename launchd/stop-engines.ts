/** Ends the engines of a host for good: the installed agent itself drains them, as it does on `--stop-engines`. */
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
 * Resolves when none is left. Throws EnginesRunning. The account's code can signal that agent, so it shares neither the
 * terminal nor the session of root, and opens no inspector; when this process ends, so does its input, and it drains.
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

/** Where they could not be counted, some may run. */
export function enginesRunning(
  { stateDir }: InstallLayout,
  count: number | undefined,
  how: string,
): MetalbridgeError {
  if (count !== undefined) return new MetalbridgeError("EnginesRunning", `${count} engines ${how}`);
  const message = `whether engines run on this host is not known: ${stateDir} could not be read`;
  return new MetalbridgeError("EnginesRunning", message, {
    summary:
      "make it and its files readable for the agent's account, and the folders above it, then run the command again",
  });
}
