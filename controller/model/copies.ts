/** The hosts that have a copy of a Model's weights. Pure. */
import type { Host } from "../../src/api/host.ts";
import type { Model } from "../../src/api/model.ts";
import { publicSource } from "../../src/models/source/source.ts";

const MAX_COPIES = 1000;

export function copiesOf({ spec }: Model, hosts: readonly Host[]) {
  const wanted = spec.sha256?.toLowerCase();
  const shown = publicSource(spec.source);
  return hosts
    .flatMap(({ metadata, status }) => {
      const copy = status?.models?.find(
        ({ source, sha256 }) =>
          source === shown && (wanted === undefined || sha256?.toLowerCase() === wanted),
      );
      if (copy === undefined) return [];
      const { sizeBytes, sha256 } = copy;
      return [
        {
          name: metadata.name,
          ...(sizeBytes === undefined ? {} : { sizeBytes }),
          ...(sha256 === undefined ? {} : { sha256 }),
        },
      ];
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, MAX_COPIES);
}
