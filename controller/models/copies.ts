/** Finds the hosts that have a copy of a Model's weights. Pure. */
import type { Host } from "../../src/api/host.ts";
import type { Model } from "../../src/api/model.ts";
import { publicSource } from "../../src/models/source/parse.ts";

const MAX_COPIES = 1000;

/** `sha256` of the main file selects the copy, because a repository may have several quantizations. */
export function copiesOf({ spec }: Model, hosts: readonly Host[], sha256 = spec.sha256) {
  const required = sha256?.toLowerCase();
  const shown = publicSource(spec.source);
  return hosts
    .flatMap(({ metadata, status }) => {
      const copy = status?.models?.find(
        (one) => one.source === shown && (required === undefined || one.sha256?.toLowerCase() === required),
      );
      return copy ? [{ name: metadata.name, sizeBytes: copy.sizeBytes, sha256: copy.sha256 }] : [];
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, MAX_COPIES);
}
