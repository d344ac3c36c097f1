/** A replica runner under the pressure governor, with limits that suit a test. */

import { defaultLimits, type GovernorLimits } from "../../agent/pressure/governor/limits.ts";
import { createPressureWatch, type PressureWatch } from "../../agent/pressure/pressure-watch.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { HostReader } from "../../src/macos/host-reader.ts";
import { quietLog } from "../cluster/quiet-log.ts";
import { type Agent, type AgentPlace, startAgentAt } from "./agent.ts";

export interface Governed {
  readonly agent: Agent;
  readonly watch: PressureWatch;
  readonly end: () => Promise<void>;
}

const quick: GovernorLimits = {
  ...defaultLimits,
  readMs: 100,
  criticalReadMs: 50,
  leaveCriticalMs: 200,
  leaveWarningMs: 200,
  returnGapMs: 100,
  awayFirstMs: 200,
};
export async function startGoverned(
  start: (changes: Parameters<typeof startAgentAt>[1]) => Promise<Agent>,
  reader: Pick<HostReader, "memory">,
): Promise<Governed> {
  const ending = new AbortController();
  const { signal } = ending;
  const watch = createPressureWatch({ reader, clock: systemClock, log: quietLog, limits: quick, signal });
  const agent = await start({
    memory: watch,
    memoryLevel: () => watch.assessment()?.level,
    mayStart: watch.mayStart,
  });
  await watch.start({ runner: agent.runner, mayEvict: () => true });
  const end = async (): Promise<void> => {
    ending.abort();
    await agent.end();
  };
  return { agent, watch, end };
}

/** The same at a place of its own, for a process of its own. */
export function startGovernedAt(place: AgentPlace, reader: Pick<HostReader, "memory">): Promise<Governed> {
  return startGoverned((changes) => startAgentAt(place, changes), reader);
}
