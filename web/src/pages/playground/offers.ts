/** The services that the playground can ask: the gateway's list joined with the live rows. Pure. */
import type { ServiceRow } from "../../../../src/console/rows.ts";
import type { GatewayModel } from "../../api/gateway.ts";

export type Mode = "chat" | "embedding" | "rerank";

export interface Offer {
  /** namespace/name: the name of the model that always means this service. */
  readonly service: string;
  /** Its other public names. */
  readonly names: readonly string[];
  readonly mode: string;
  readonly contextLength: number | undefined;
  readonly row: ServiceRow | undefined;
  /** `idle`: the first request starts it. */
  readonly state: "ready" | "idle" | "starting" | "off" | "not offered";
}

/** Those that can be asked first, then by name. */
export function offersOf(
  models: readonly GatewayModel[],
  rows: readonly ServiceRow[],
  mode: Mode,
): readonly Offer[] {
  const byService = Map.groupBy(models, ({ service }) => service);
  const rowOf = new Map(rows.map((row) => [`${row.namespace}/${row.name}`, row]));
  const keys = new Set([...byService.keys(), ...rowOf.keys()]);
  return [...keys]
    .map((service) => offerOf(service, byService.get(service) ?? [], rowOf.get(service)))
    .filter((offer) => offer.mode === mode)
    .sort((a, b) => Number(canAsk(b)) - Number(canAsk(a)) || (a.service < b.service ? -1 : 1));
}

export function canAsk({ state }: Offer): boolean {
  return state === "ready" || state === "idle";
}

/** Live rows are newer than the list. */
function offerOf(service: string, models: readonly GatewayModel[], row: ServiceRow | undefined): Offer {
  const [model] = models;
  return {
    service,
    names: models.flatMap(({ id, aliases }) => [id, ...aliases]).filter((name) => name !== service),
    mode: model?.mode ?? row?.mode ?? "chat",
    contextLength: model?.context_length ?? undefined,
    row,
    state: stateOf(model, row),
  };
}

function stateOf(model: GatewayModel | undefined, row: ServiceRow | undefined): Offer["state"] {
  if (model === undefined) return "not offered";
  if (row === undefined) return model.state;
  if (row.ready > 0) return "ready";
  if (row.phase === "Idle") return "idle";
  return model.state === "off" ? "off" : "starting";
}
