/** Weights that are on disk: held against removal, their header read, the replica's own claim made from it. */
import { ggufSchema } from "../../../src/api/fields/gguf.ts";
import type { ReplicaTemplate } from "../../../src/api/inference-replica.ts";
import { describeError, MetalbridgeError } from "../../../src/errors.ts";
import { estimateClaim } from "../../../src/memory/claim.ts";
import type { ComputeTable } from "../../../src/memory/compute/table.ts";
import type { OwnClaim } from "../../../src/replica/observed.ts";
import type { ModelFacts, StoredModel } from "../../store/types.ts";
import { contentsOf } from "../../store/usage.ts";
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";

/** These, and what a running engine has open: that may be older contents than its source has by now. */
export function holdContents(
  state: ReplicaState,
  { ports }: RunnerContext,
  ...models: readonly (StoredModel | undefined)[]
): void {
  ports.store.hold(state.uid, [...contentsOf(...models), ...(state.file?.contents ?? [])]);
}

/** Sets `state.stored` and `state.model`. A header that cannot be read is a finding and no failure. */
export async function keepModel(
  state: ReplicaState,
  context: RunnerContext,
  model: StoredModel,
  draft: StoredModel | undefined,
): Promise<void> {
  const { store, clock } = context.ports;
  holdContents(state, context, model, draft);
  const [found, draftFound] = await Promise.all([
    store.inspect(model),
    draft === undefined ? undefined : store.inspect(draft),
  ]);
  const template = state.desired?.spec.template;
  const gguf = ggufSchema.safeParse(found.gguf);
  state.lookedAt = clock.monotonicMs();
  state.stored = draft === undefined ? { model } : { model, draft };
  state.model = {
    at: "stored",
    sizeBytes: model.sizeBytes,
    ...(model.sha256 === undefined ? {} : { sha256: model.sha256 }),
    ...(gguf.success ? { gguf: gguf.data } : {}),
    ...(template === undefined
      ? {}
      : { claim: ownClaim(template, found, draftFound, context.ports.computeTable) }),
  };
}

/** What the files on this host say that the engine will take. */
export function ownClaim(
  { engine }: ReplicaTemplate,
  found: ModelFacts,
  draft: ModelFacts | undefined,
  table?: ComputeTable,
): OwnClaim {
  const problem = found.problem ?? draft?.problem;
  if (problem !== undefined) return unknown(new MetalbridgeError(problem.code, problem.message));
  if (found.gguf === undefined || (draft !== undefined && draft.gguf === undefined)) {
    const message = "only a GGUF file tells how much memory it needs, and the model has none";
    return unknown(new MetalbridgeError("ClaimUnknown", message));
  }
  try {
    const files = { projectorSizeBytes: found.projectorBytes, draft: draft?.gguf };
    const { totalBytes } = estimateClaim(found.gguf, { ...engine, ...files }, table);
    return { at: "estimated", bytes: totalBytes };
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return unknown(error);
  }
}

function unknown(error: MetalbridgeError): OwnClaim {
  return { at: "unknown", code: error.code, message: describeError(error) };
}
