/** Which revision of its BackendRuntime each service may use, and the choice that follows. */
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { keyOf } from "../../src/api/names.ts";
import type { Blocked } from "../../src/capacity/resolve.ts";
import type { Watches } from "../watches/watches.ts";
import { type ChosenBackend, chooseBackend } from "./plan/choice.ts";
import type { BackendTurn } from "./plan/plan.ts";

/** Decisions of this leader. The service that is being updated is also in the status of the BackendRuntime. */
export interface BackendTurns {
  readonly of: (backendRuntime: string) => BackendTurn | undefined;
  readonly set: (backendRuntime: string, turn: BackendTurn | undefined) => void;
}

export function createBackendTurns(): BackendTurns {
  const turns = new Map<string, BackendTurn>();
  return {
    of: (name) => turns.get(name),
    set: (name, turn) => {
      if (turn === undefined) turns.delete(name);
      else turns.set(name, turn);
    },
  };
}

export type BackendFacts = {
  readonly backendRuntimes: Pick<Watches["backendRuntimes"], "get">;
  readonly revisionsOfBackend: Pick<Watches["revisionsOfBackend"], "of">;
  readonly backendsProblem: Watches["backendsProblem"];
};

/** The content of the BackendRuntime that a service uses. Undefined if it names none, or if there is no content or it is unknown. */
export function backendOf(
  { backendRuntimes, revisionsOfBackend, backendsProblem }: BackendFacts,
  service: InferenceService,
  turns?: BackendTurns,
): ChosenBackend | undefined {
  const { name } = service.spec.backendRuntime ?? {};
  // Without the stored content, the service would get the current one, which replaces its engines.
  if (name === undefined || backendsProblem() !== undefined) return undefined;
  const observed = { runtime: backendRuntimes.get(name), stored: revisionsOfBackend.of(name) };
  return chooseBackend(service, observed, turns?.of(name)?.granted.get(keyOf(service.metadata)));
}

/** Why a service that names a BackendRuntime has to wait, whatever its content. */
export function backendBlocked(
  { backendsProblem }: Pick<BackendFacts, "backendsProblem">,
  { spec }: InferenceService,
): Blocked | undefined {
  const problem = spec.backendRuntime && backendsProblem();
  if (problem === undefined) return undefined;
  const message = `cannot read BackendRuntime ${spec.backendRuntime?.name}: ${problem}`;
  return { at: "blocked", code: "BackendRuntimesUnavailable", message, isFinal: false };
}
