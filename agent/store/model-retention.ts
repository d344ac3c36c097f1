/** Which models stay: pinned ones are never evicted, prefetched ones last. By source, as Host.status shows it. */
import * as z from "zod";
import { publicSource } from "../../src/models/source/parse.ts";
import type { Log } from "../../src/util/ports.ts";
import { openPersistedJson } from "./content/persisted-json.ts";
import type { Ref } from "./refs.ts";

const pinsSchema = z.object({ version: z.literal(1), sources: z.array(z.string()) });

/** What the cluster wants kept on this host, by source. */
export interface DeclaredModels {
  readonly pinned: readonly string[];
  readonly prefetched: readonly string[];
}

export interface ModelRetention {
  readonly isPinned: (ref: Ref) => boolean;
  readonly isPrefetched: (ref: Ref) => boolean;
  /** Pinned on this host; survives restarts. */
  readonly pin: (source: string) => Promise<void>;
  /** `declared`: the cluster pins it, so it stays pinned. */
  readonly unpin: (source: string) => Promise<"unpinned" | "wasNot" | "declared">;
  readonly declare: (declared: DeclaredModels) => void;
}

export async function openModelRetention(path: string, log: Log): Promise<ModelRetention> {
  const file = await openPersistedJson(
    path,
    pinsSchema,
    log,
    "cannot read which models are pinned on this host",
  );
  const pins = new Set(file.before?.sources);
  let declared = { pinned: new Set<string>(), prefetched: new Set<string>() };
  const write = () => file.write(() => ({ version: 1, sources: [...pins].sort() }));
  return {
    isPinned: ({ source }) => pins.has(publicSource(source)) || declared.pinned.has(publicSource(source)),
    isPrefetched: ({ source }) => declared.prefetched.has(publicSource(source)),
    pin: async (source) => {
      pins.add(publicSource(source));
      await write();
    },
    unpin: async (source) => {
      const was = pins.delete(publicSource(source));
      if (was) await write();
      if (declared.pinned.has(publicSource(source))) return "declared";
      return was ? "unpinned" : "wasNot";
    },
    declare: ({ pinned, prefetched }) => {
      declared = {
        pinned: new Set(pinned.map(publicSource)),
        prefetched: new Set(prefetched.map(publicSource)),
      };
    },
  };
}
