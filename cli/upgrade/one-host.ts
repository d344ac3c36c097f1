/** Upgrades one host, from its drain to its health. Each step is bounded in time, unless the user wants no limit, and ends with the signal. */
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
  /** The user did not wait; an upgrade that has begun continues on the host. */
  | { readonly at: "unknown"; readonly step: HostUpgradeStep }
  | { readonly at: "not started" };

export interface HostUpgradePorts {
  /** False when the user stopped it. Throws MetalbridgeError. */
  readonly drain: (host: string) => Promise<boolean>;
  /** Restores what the Host had before `drain`. Throws MetalbridgeError. */
  readonly uncordon: (host: string) => Promise<void>;
  readonly upgrade: (target: UpgradeTarget) => Promise<SessionEnd>;
  /** False when the user did not wait. Throws MetalbridgeError. */
  readonly untilHealthy: (target: UpgradeTarget) => Promise<boolean>;
  readonly say: (line: string) => void;
}

/** Never rejects for an expected failure. */
export async function upgradeHost(
  ports: HostUpgradePorts,
  target: UpgradeTarget,
  isDrained: boolean,
): Promise<HostResult> {
  const { host } = target;
  let step: HostUpgradeStep = "drain";
  const begin = (next: HostUpgradeStep, what: string) => {
    step = next;
    ports.say(`${host}: ${what}`);
  };
  try {
    if (isDrained) begin("drain", "draining");
    if (isDrained && !(await drainOrGoBack(ports, host))) return { at: "not started" };
    begin("connect", "copying the release");
    const end = await ports.upgrade(target);
    if (end.how !== "upgraded") return await leave(ports, host, end, isDrained);
    begin("health", "upgraded; waiting until it serves as before");
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

/** The host runs its previous version, and takes replicas again, unless that version does not start either. */
async function leave(
  ports: HostUpgradePorts,
  host: string,
  end: Exclude<SessionEnd, { readonly how: "upgraded" }>,
  isDrained: boolean,
): Promise<HostResult> {
  const { step } = end;
  if (end.how === "abandoned") {
    if (isDrained) ports.say(`${host}: stays drained: ${uncordonCommand(host)}`);
    return { at: "unknown", step };
  }
  const { code, message, tail } = end;
  const note = isDrained && code !== "RollbackFailed" ? await uncordonOrNote(ports, host) : "";
  return { at: "failed", step, code, message: `${message}${note}`, tail };
}

/** A host that was not emptied takes replicas again. */
async function drainOrGoBack(ports: HostUpgradePorts, host: string): Promise<boolean> {
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

/** Empty once it is uncordoned; else why it is not, to be added to the failure that came before. */
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
