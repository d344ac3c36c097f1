/** What tells weights from others of the same name: the checksum of what the store holds, path, size and time of files used in place. */
import { stat } from "node:fs/promises";
import type { StoredModel } from "../../store/types.ts";
import type { ReplicaState } from "../state.ts";

/**
 * Notes on `state.model` what its files are, and later whether others have taken their place. A job, because a disk that is
 * a network away may hang. Only while nothing runs: what a running engine has loaded is not what the disk has now.
 */
export function watchWeights(state: ReplicaState): void {
  const { model, stored, process, history } = state;
  if (process !== undefined || model.at !== "stored" || stored === undefined) return;
  const isHopeless = history.hopelessWith !== undefined;
  if (model.isReplaced === true || (model.weights !== undefined && !isHopeless)) return;
  state.jobs.run("weights", async () => {
    const found = await identityOf(stored.model, stored.draft).catch(() => undefined);
    // Looked at anew meanwhile: this was about the files before.
    if (state.model !== model) return true;
    if (found === undefined || found === model.weights) return "unchanged";
    state.model = model.weights === undefined ? { ...model, weights: found } : { ...model, isReplaced: true };
    return isHopeless ? true : "unchanged";
  });
}

/** What the run that has just ended was started with; undefined where that was not noted before its start. */
export function weightsTried({ model }: ReplicaState): string | undefined {
  return model.at === "stored" ? model.weights : undefined;
}

async function identityOf(...models: readonly (StoredModel | undefined)[]): Promise<string> {
  const files = models.flatMap((model) => model?.files ?? []);
  const marks = files.map(async ({ path, sha256 }) => {
    if (sha256 !== undefined) return sha256;
    const { size, mtimeMs } = await stat(path);
    return `${path} ${size} ${mtimeMs}`;
  });
  return (await Promise.all(marks)).join("\n");
}
