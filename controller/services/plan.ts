/** Plans a pass over a service, whatever its path: the steps, in the order in which they are applied. Pure. */
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import type { Because, PathStep, ServiceStep } from "../frame/owned/steps.ts";
import { removals } from "../frame/owned/teardown.ts";
import type { LiveService, PathResult, ServicePath } from "../frame/service/path.ts";
import type { RoutePlan } from "./routes/route.ts";

export type PassStep = Because &
  (
    | { readonly do: "route"; readonly route: RoutePlan }
    /** Takes the service out of the queues of a path that does not run it. */
    | { readonly do: "release" | "run"; readonly path: ServicePath }
    | { readonly do: "keep"; readonly steps: readonly PathStep[] }
    /** If the path finds a Service of another owner: a slice of its name would send its traffic to our engines. */
    | { readonly do: "yieldName"; readonly steps: readonly ServiceStep[] }
    | { readonly do: "scale" | "watchObjective" }
    | { readonly do: "writeStatus"; readonly elsewhere: ConditionUpdate | undefined }
    /** If the service needs the replicas of no other path any more. */
    | { readonly do: "leave"; readonly steps: readonly ServiceStep[] }
  );

export interface PassInput {
  /** The service as it runs now, on its flavor. An idle one is suspended. */
  readonly live: LiveService;
  readonly chosen: ServicePath;
  readonly paths: readonly ServicePath[];
  readonly route: RoutePlan;
}

const NOT_OURS = "the Service of this name is not ours";

export function planServicePass({ live: { own }, chosen, paths, route }: PassInput): readonly PassStep[] {
  const others = paths.filter((path) => path !== chosen && chosen.parts?.includes(path) !== true);
  // A path with parts has no state of its own, and its parts are in the list too. Paths of one platform share their state.
  const released = others.filter((path) => path.parts === undefined && path.on !== chosen.on);
  const kept = others.flatMap((path) => path.keep?.(own) ?? []);
  const serving = others.find((path) => path.serving(own) > 0);
  const elsewhere = serving && servedElsewhere(serving.serving(own), serving, chosen);
  const leaving = others.flatMap((path) => path.leave(own, chosen));
  return [
    // First, because a pass may wait for pods.
    { do: "route", route, because: "the Gateway must not send requests to replicas that are gone" },
    ...released.map((path) => ({ do: "release", path, because: "it does not run the service" }) as const),
    { do: "keep", steps: kept, because: "pods of another path serve until the chosen one does" },
    { do: "run", path: chosen, because: "the spec and the Model choose it" },
    {
      do: "yieldName",
      steps: [
        ...removals("slices", own.slices, NOT_OURS),
        ...removals("relaySlices", own.relaySlices, NOT_OURS),
      ],
      because: "a Service of another owner may have the name",
    },
    { do: "scale", because: "the autoscaler follows the path and the runtime" },
    { do: "watchObjective", because: "alerts watch the service level objective of the spec" },
    { do: "writeStatus", elsewhere, because: "the status reports the steps before it" },
    { do: "leave", steps: leaving, because: "the chosen path serves" },
  ];
}

/** A service that moves to another path is Available through the old path until its new replicas are ready. */
function servedElsewhere(count: number, { names }: ServicePath, to: ServicePath): ConditionUpdate {
  const target = to.on === "Hosts" ? "hosts" : to.names;
  const message = `${count} existing ${names} serve until the service is Ready on ${target}`;
  return { type: "Available", status: "True", reason: "ServedElsewhere", message };
}

/** Phases in which the service no longer needs the replicas of another path. */
const NEEDS_NO_OTHER_PATH = new Set<PathResult["status"]["phase"]>(["Ready", "Stopped", "Suspended", "Idle"]);

export function needsNoOtherPath({ phase }: PathResult["status"]): boolean {
  return NEEDS_NO_OTHER_PATH.has(phase);
}
