/** Waits until the agent serves, or until it is clear that it will not. */
import { dirname } from "node:path";
import { readPlainFile } from "../src/util/plain-file.ts";
import { asOwnerOf } from "./account-files.ts";
import { queryAgent } from "./agent-socket.ts";
import { type InstallLayout, socketOf } from "./layout/layout.ts";
import {
  assessHealth,
  type ExpectedAgent,
  type HealthAssessment,
  type HealthySince,
  hasSettled,
  healthProblem,
} from "./plan/health.ts";
import type { InstallPorts } from "./ports.ts";
import { pollUntil } from "./wait.ts";

export interface HealthOutcome {
  readonly healthy: boolean;
  readonly why: string;
}

/** Asking the service manager takes processes, and the agent starts on the same cores. */
const JOB_EVERY_MS = 500;

export async function awaitHealthy(
  { clock, supervisor }: Pick<InstallPorts, "clock" | "supervisor">,
  layout: InstallLayout,
  expected: ExpectedAgent & { readonly withinMs: number },
): Promise<HealthOutcome> {
  let since: HealthySince | undefined;
  let askedMs = clock.monotonicMs();
  let verdict = { is: "waiting", why: "" } as HealthAssessment;
  await pollUntil(clock, expected.withinMs, async () => {
    const agent = await queryAgent(socketOf(layout));
    const atMs = clock.monotonicMs();
    if (agent.at !== "answers" || healthProblem(agent, expected) !== undefined) since = undefined;
    else if (since?.pid !== agent.pid) since = { pid: agent.pid, atMs };
    const isDue = atMs - askedMs >= JOB_EVERY_MS || hasSettled({ agent, atMs }, since);
    if (isDue) askedMs = atMs;
    verdict = assessHealth(
      expected,
      { atMs, agent, job: isDue ? await supervisor.observe() : undefined },
      since,
    );
    return verdict.is !== "waiting";
  });
  return verdict.is === "healthy" ? { healthy: true, why: "" } : { healthy: false, why: verdict.why };
}

const LINES = 8;
const MAX_BYTES = 64 << 10;

/** The last lines of both logs, for a message; empty when there are none. systemd's are in the journal. */
export function tailOfLogs({ agentLog, crashLog, manager }: InstallLayout): string {
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
    return asOwnerOf(dirname(path), () => readPlainFile(path, { maxBytes: MAX_BYTES, atEnd: true }));
  } catch {
    return "";
  }
}
