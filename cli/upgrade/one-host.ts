/** Upgrades one host, from the drain to the health check. Each step has a time limit, unless the user sets none, and stops with the signal. */
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import type { UpgradeTarget } from "./plan.ts";
import type { SessionEnd, UpgradeStep } from "./transport.ts";

export type HostUpgradeStep = "drain" | UpgradeStep | "health" | "uncordon";

export interface HostFailure {
  readonly step: HostUpgradeStep;
  readonly code: ErrorCode;
  readonly message: string;
  readonly tail?: string;
}

export type HostResult =
  | { readonly at: "upgraded" }
  | ({ readonly at: "failed" } & HostFailure)
  /** The user did not wait. An upgrade that has started continues on the host. */
  | { readonly at: "unknown"; readonly step: HostUpgradeStep }
  | { readonly at: "not started" };

export interface HostUpgradePorts {
  /** False if the user stopped the drain. Throws MetalbridgeError. */
  readonly drain: (host: string) => Promise<boolean>;
  /** Restores the fields of the Host from before `drain`. Throws MetalbridgeError. */
  readonly uncordon: (host: string) => Promise<void>;
  readonly upgrade: (target: UpgradeTarget) => Promise<SessionEnd>;
  /** False if the user did not wait. Throws MetalbridgeError. */
  readonly untilHealthy: (target: UpgradeTarget) => Promise<boolean>;
  readonly report: (line: string) => void;
}

/** Never rejects for an expected failure. */
export async function upgradeHost(
  ports: HostUpgradePorts,
  target: UpgradeTarget,
  isDrained: boolean,
): Promise<HostResult> {
  const { host } = target;
  let step: HostUpgradeStep = "drain";
  const begin = (next: HostUpgradeStep, activity: string) => {
    step = next;
    ports.report(`${host}: ${activity}`);
  };
  try {
    if (isDrained) begin("drain", "draining");
    if (isDrained && !(await drainOrUncordon(ports, host))) return { at: "not started" };
    begin("connect", "copying the release");
    const end = await ports.upgrade(target);
    if (end.at !== "upgraded") return await afterFailure(ports, host, end, isDrained);
    begin("health", "upgraded; waiting until the host serves as before");
    if (!(await ports.untilHealthy(isDrained ? { ...target, replicas: [] } : target)))
      return { at: "unknown", step };
    begin("uncordon", "healthy");
    if (isDrained) await ports.uncordon(host);
    return { at: "upgraded" };
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    const note = isDrained && step !== "drain" ? `; it stays drained: ${uncordonCommand(host)}` : "";
    return { at: "failed", step, code: error.code, message: `${error.message}${note}` };
  }
}

/** Uncordons the host, which runs its previous version again, unless the rollback failed. */
async function afterFailure(
  ports: HostUpgradePorts,
  host: string,
  end: Exclude<SessionEnd, { readonly at: "upgraded" }>,
  isDrained: boolean,
): Promise<HostResult> {
  const { step } = end;
  if (end.at === "abandoned") {
    if (isDrained) ports.report(`${host}: stays drained: ${uncordonCommand(host)}`);
    return { at: "unknown", step };
  }
  const { code, message, tail } = end;
  const note = isDrained && code !== "RollbackFailed" ? await uncordonOrNote(ports, host) : "";
  return { at: "failed", step, code, message: `${message}${note}`, tail };
}

/** Uncordons the host if the drain did not finish. */
async function drainOrUncordon(ports: HostUpgradePorts, host: string): Promise<boolean> {
  try {
    if (await ports.drain(host)) return true;
  } catch (error) {
    const note = await uncordonOrNote(ports, host);
    if (!(error instanceof MetalbridgeError) || note === "") throw error;
    throw new MetalbridgeError(error.code, `${error.message}${note}`, error.remedy, { cause: error });
  }
  await ports.uncordon(host);
  return false;
}

/** Uncordons the host. A failure is returned as a note for the message of the earlier failure. */
async function uncordonOrNote({ uncordon }: HostUpgradePorts, host: string): Promise<string> {
  try {
    await uncordon(host);
    return "";
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return `; it stays drained (${error.message}): ${uncordonCommand(host)}`;
  }
}

function uncordonCommand(host: string): string {
  return `metalbridge uncordon ${host}`;
}
