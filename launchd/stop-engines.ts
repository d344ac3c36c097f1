/** Ends the engines of a host for good: the installed agent itself drains them, as it does on `--stop-engines`. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { MetalbridgeError } from "../src/api/errors.ts";
import { agentCommand, agentPath } from "./agent-command.ts";
import { askAgent } from "./agent-socket.ts";
import type { Layout } from "./layout.ts";
import type { Ports } from "./ports.ts";
import { until } from "./wait.ts";

const STARTS_WITHIN_MS = 30_000;

/** Resolves when none is left. Throws EnginesRunning. */
export async function drainEngines(ports: Ports, layout: Layout, socket: string): Promise<void> {
  const [program = "", ...args] = [...agentCommand(layout), "--stop-engines"];
  const account = layout.account === undefined ? undefined : await ports.accounts.observe(layout.account);
  const ids = account?.at === "present" && ports.euid === 0 ? { uid: account.uid, gid: account.gid } : {};
  const child = spawn(program, args, {
    stdio: "ignore",
    cwd: "/",
    env: { PATH: `${agentPath}`, HOME: layout.stateDir },
    ...ids,
  });
  const exited = once(child, "exit").catch(() => undefined);
  const serves = async (): Promise<boolean> => {
    const agent = await askAgent(socket);
    return (agent.at === "answers" && agent.phase === "serving") || child.exitCode !== null;
  };
  await until(ports.clock, STARTS_WITHIN_MS, serves);
  child.kill("SIGTERM");
  await exited;
  const left = (await ports.countEngines(layout.stateDir)) ?? 0;
  if (left > 0) throw new MetalbridgeError("EnginesRunning", `${left} engines did not stop`);
}
