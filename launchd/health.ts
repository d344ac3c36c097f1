/** Waits until the agent serves, or until it is clear that it will not. */
import { readFile } from "node:fs/promises";
import { askAgent } from "./agent-socket.ts";
import { type Layout, socketOf } from "./layout.ts";
import { type Expected, judge, whatIsMissing } from "./plan/health.ts";
import type { Ports } from "./ports.ts";
import { until } from "./wait.ts";

export interface Outcome {
  readonly healthy: boolean;
  readonly why: string;
}

export async function awaitHealthy(
  { clock, supervisor }: Pick<Ports, "clock" | "supervisor">,
  layout: Layout,
  expected: Expected & { readonly withinMs: number },
): Promise<Outcome> {
  let since: { readonly pid: number; readonly atMs: number } | undefined;
  let why = "";
  let healthy = false;
  await until(clock, expected.withinMs, async () => {
    const agent = await askAgent(socketOf(layout));
    const job = await supervisor.observe();
    const atMs = clock.monotonicMs();
    if (agent.at !== "answers" || whatIsMissing(agent, expected) !== undefined) since = undefined;
    else if (since?.pid !== agent.pid) since = { pid: agent.pid, atMs };
    const verdict = judge(expected, { atMs, agent, job }, since);
    healthy = verdict.is === "healthy";
    if (verdict.is !== "healthy") why = verdict.why;
    return verdict.is !== "waiting";
  });
  return { healthy, why };
}

const LINES = 8;
const MOST_BYTES = 64 << 10;

/** The last lines of both logs, for a message; empty when there are none. systemd's are in the journal. */
export async function tailOfLogs({ agentLog, crashLog, manager }: Layout): Promise<string> {
  if (manager === "systemd") return "\n  journalctl -u metalbridge-agent -n 20";
  const texts = [];
  for (const path of [crashLog, agentLog]) {
    const text = path === undefined ? "" : await readFile(path, "utf8").catch(() => "");
    const lines = text.slice(-MOST_BYTES).trimEnd().split("\n").slice(-LINES);
    if (text.trim() !== "") texts.push(`\n${path}:\n${lines.map((line) => `  ${line}`).join("\n")}`);
  }
  return texts.join("");
}
