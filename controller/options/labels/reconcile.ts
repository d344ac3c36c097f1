/** Applies the labels of one Node or Host, by a separate field manager. An apply also removes labels that are no longer true. */
import { MANAGER_LABELS } from "../../../src/api/group.ts";
import { HOSTS } from "../../../src/api/kinds.ts";
import { devicesOfHost } from "../../../src/capacity/devices/host.ts";
import { labelsOf } from "../../../src/capacity/devices/labels.ts";
import { hardwareOf } from "../../../src/cluster/nodes.ts";
import { NODES } from "../../../src/kube/kinds.ts";
import { apiVersionOf } from "../../../src/kube/paths.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";
import { isSettled } from "../../frame/apply/failure.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import { planLabels } from "./plan.ts";

export type LabelsPorts = Pick<ControllerPorts, "client" | "clock" | "log" | "watches"> & {
  /** Undefined: labels are not changed. */
  readonly prefix: string | undefined;
};

/** Interval between attempts while the account lacks the right. One object is tried, and the others wait. */
const FORBIDDEN_RECHECK_MS = 300_000;
const CONFLICT_RECHECK_MS = 1_000;
const FIRST_LIST_RECHECK_MS = 500;

/** Returns the pass over `nodes/NAME` or `hosts/NAME`. */
export function createLabelsPass(ports: LabelsPorts): (key: string) => Promise<Recheck | undefined> {
  const { watches, prefix } = ports;
  const nodes = createWriter(ports, NODES);
  const hosts = createWriter(ports, HOSTS);
  return async (key) => {
    if (prefix === undefined) return undefined;
    const name = key.slice(key.indexOf("/") + 1);
    if (key.startsWith("hosts/")) {
      const host = watches.hosts.get(name);
      return host && hosts(host, labelsOf(devicesOfHost(host), prefix));
    }
    const node = watches.nodes.get(name);
    if (node === undefined) return undefined;
    const { resourceSlices } = watches;
    // A cluster without this kind, or an account without the right to it, has failed once.
    if (!resourceSlices.isSynced() && resourceSlices.interruptions() === 0)
      return { recheckAfterMs: FIRST_LIST_RECHECK_MS };
    return nodes(node, labelsOf(hardwareOf(node, watches).devices, prefix));
  };
}

function createWriter<T extends KubeObject>({ client, clock, log }: LabelsPorts, kind: Kind<T>) {
  let forbiddenUntilMs: number | undefined;
  return async (current: T, derived: Readonly<Record<string, string>>): Promise<Recheck | undefined> => {
    const labels = planLabels(current, apiVersionOf(kind), derived);
    if (labels === undefined) return undefined;
    if (forbiddenUntilMs !== undefined && clock.monotonicMs() < forbiddenUntilMs)
      return { recheckAfterMs: FORBIDDEN_RECHECK_MS };
    const { name } = current.metadata;
    const object = { metadata: { name, labels } } as unknown as T;
    // Not forced: another manager may have set a label since.
    const result = await client.apply(kind, object, { manager: MANAGER_LABELS, current, isForced: false });
    if (!result.ok && result.error.kind === "forbidden") {
      const text = `this account may not label ${kind.kind}s; with the chart: --set labels.enabled=true`;
      if (forbiddenUntilMs === undefined) log.warn({ code: "ApiForbidden", failure: result.error }, text);
      forbiddenUntilMs = clock.monotonicMs() + FORBIDDEN_RECHECK_MS;
      return { recheckAfterMs: FORBIDDEN_RECHECK_MS };
    }
    forbiddenUntilMs = undefined;
    if (!isSettled(`label ${kind.kind} ${name}`, result)) return { recheckAfterMs: CONFLICT_RECHECK_MS };
    log.info({ [kind.kind.toLowerCase()]: name, labels }, "hardware labels applied");
    return undefined;
  };
}
