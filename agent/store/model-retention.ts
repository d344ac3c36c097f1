/** Tracks pinned models, which are never evicted, and prefetched models, which are evicted last. Keyed by source, as in Host.status. */
import * as z from "zod";
import { publicSource } from "../../src/models/source/parse.ts";
import type { Log } from "../../src/util/ports.ts";
import { openPersistedJson } from "./content/persisted-json.ts";
import type { Ref } from "./content/refs.ts";

const pinsSchema = z.object({ version: z.literal(1), sources: z.array(z.string()) });

/** Sources that the cluster pins or prefetches on this host. */
export interface DeclaredModels {
  readonly pinned: readonly string[];
  readonly prefetched: readonly string[];
}

export interface ModelRetention {
  readonly isPinned: (ref: Ref) => boolean;
  readonly isPrefetched: (ref: Ref) => boolean;
  /** Pins a source on this host, across restarts. */
  readonly pin: (source: string) => Promise<void>;
  /** `declared`: the cluster pins the source, so it remains pinned. */
  readonly unpin: (source: string) => Promise<"unpinned" | "wasNot" | "declared">;
  readonly declare: (declared: DeclaredModels) => void;
}

export async function openModelRetention(path: string, log: Log): Promise<ModelRetention> {
  const file = await openPersistedJson(path, pinsSchema, log, "cannot read the pinned models of this host");
  const pins = new Set(file.before?.sources);
  let declared: DeclaredModels = { pinned: [], prefetched: [] };
  const write = () => file.write(() => ({ version: 1, sources: [...pins].sort() }));
  return {
    isPinned: ({ source }) =>
      pins.has(publicSource(source)) || declared.pinned.includes(publicSource(source)),
    isPrefetched: ({ source }) => declared.prefetched.includes(publicSource(source)),
    pin: async (source) => {
      pins.add(publicSource(source));
      await write();
    },
    unpin: async (source) => {
      const was = pins.delete(publicSource(source));
      if (was) await write();
      if (declared.pinned.includes(publicSource(source))) return "declared";
      return was ? "unpinned" : "wasNot";
    },
    declare: ({ pinned, prefetched }) => {
      declared = { pinned: pinned.map(publicSource), prefetched: prefetched.map(publicSource) };
    },
  };
}
