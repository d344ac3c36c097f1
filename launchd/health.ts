/** Waits until the agent serves, or until it is certain that it will not. */
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

/** The service manager is queried at this interval, because a query starts processes on the cores that the agent needs. */
const JOB_EVERY_MS = 500;

export async function awaitHealthy(
  { clock, supervisor }: Pick<InstallPorts, "clock" | "supervisor">,
  layout: InstallLayout,
  expected: ExpectedAgent & { readonly withinMs: number },
): Promise<HealthAssessment> {
  let since: HealthySince | undefined;
  let queriedMs = clock.monotonicMs();
  let assessment: HealthAssessment = { is: "waiting", why: "" };
  await pollUntil(clock, expected.withinMs, async () => {
    const agent = await queryAgent(socketOf(layout));
    const atMs = clock.monotonicMs();
    if (agent.at !== "answers" || healthProblem(agent, expected) !== undefined) since = undefined;
    else if (since?.pid !== agent.pid) since = { pid: agent.pid, atMs };
    const queriesJob = atMs - queriedMs >= JOB_EVERY_MS || hasSettled({ agent, atMs }, since);
    if (queriesJob) queriedMs = atMs;
    const job = queriesJob ? await supervisor.observe() : undefined;
    assessment = assessHealth(expected, { atMs, agent, job }, since);
    return assessment.is !== "waiting";
  });
  return assessment;
}

const LINES = 8;
const MAX_BYTES = 64 << 10;

/** The last lines of both logs for a message, or the command for systemd's journal. */
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

/** Empty if the file cannot be read. */
function endOf(path: string): string {
  try {
    return asOwnerOf(dirname(path), () => readPlainFile(path, { maxBytes: MAX_BYTES, atEnd: true }));
  } catch {
    return "";
  }
}
