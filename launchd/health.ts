/** Waits until the agent serves, or until it is clear that it will not. */
import { dirname } from "node:path";
import { readPlainFile } from "../src/util/plain-file.ts";
import { asOwnerOf } from "./account-files.ts";
import { askAgent } from "./agent-socket.ts";
import { type Layout, socketOf } from "./layout.ts";
import { type Expected, hasSettled, judge, type Since, type Verdict, whatIsMissing } from "./plan/health.ts";
import type { Ports } from "./ports.ts";
import { until } from "./wait.ts";

export interface Outcome {
  readonly healthy: boolean;
  readonly why: string;
}

/** Asking the service manager takes processes, and the agent starts on the same cores. */
const JOB_EVERY_MS = 500;

export async function awaitHealthy(
  { clock, supervisor }: Pick<Ports, "clock" | "supervisor">,
  layout: Layout,
  expected: Expected & { readonly withinMs: number },
): Promise<Outcome> {
  let since: Since | undefined;
  let askedMs = clock.monotonicMs();
  let verdict = { is: "waiting", why: "" } as Verdict;
  await until(clock, expected.withinMs, async () => {
    const agent = await askAgent(socketOf(layout));
    const atMs = clock.monotonicMs();
    if (agent.at !== "answers" || whatIsMissing(agent, expected) !== undefined) since = undefined;
    else if (since?.pid !== agent.pid) since = { pid: agent.pid, atMs };
    const isDue = atMs - askedMs >= JOB_EVERY_MS || hasSettled({ agent, atMs }, since);
    if (isDue) askedMs = atMs;
    verdict = judge(expected, { atMs, agent, job: isDue ? await supervisor.observe() : undefined }, since);
    return verdict.is !== "waiting";
  });
  return verdict.is === "healthy" ? { healthy: true, why: "" } : { healthy: false, why: verdict.why };
}

const LINES = 8;
const MOST_BYTES = 64 << 10;

/** The last lines of both logs, for a message; empty when there are none. systemd's are in the journal. */
export function tailOfLogs({ agentLog, crashLog, manager }: Layout): string {
  if (manager === "systemd") return "\n  journalctl -u metalbridge-agent -n 20";
  const texts = [];
  for (const path of [crashLog, agentLog]) {
    const text = path === undefined ? "" : endOf(path);
    const lines = text.trimEnd().split("\n").slice(-LINES);
    if (text.trim() !== "") texts.push(`\n${path}:\n${lines.map((line) => `  ${line}`).join("\n")}`);
  }
  return texts.join("");
}

/** Empty when it cannot be read. */
function endOf(path: string): string {
  try {
    return asOwnerOf(dirname(path), () => readPlainFile(path, { maxBytes: MOST_BYTES, atEnd: true }));
  } catch {
    return "";
  }
}
