/** Records the origin of each content and whether it required credentials: knowing a checksum does not grant access to stored content. */
import { join } from "node:path";
import * as z from "zod";
import { writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import type { StoreLayout } from "./layout.ts";
import { readJson } from "./persisted-json.ts";

const originSchema = z.object({
  version: z.literal(1),
  /** True if the content was downloaded without credentials. */
  isPublic: z.boolean(),
  /** Addresses of files, without query. */
  addresses: z.array(z.string()),
});

export type Origin = Pick<z.infer<typeof originSchema>, "isPublic" | "addresses">;

export interface ContentOrigins {
  /** Must be called before the content is published, so that every content has an origin. */
  readonly note: (sha256: string, address: string, isPublic: boolean) => Promise<void>;
  /** Content without a readable record counts as content of an unknown source that requires credentials. */
  readonly of: (sha256: string) => Promise<Origin>;
}

/** Sources of one content beyond this number are queried again. */
const MAX_ADDRESSES = 16;

export function createOrigins(layout: StoreLayout): ContentOrigins {
  const inTurn = createSerializer();
  return {
    note: (sha256, address, isPublic) =>
      inTurn(async () => {
        const path = join(layout.origins, sha256);
        const before = await readJson(path, originSchema);
        const isKnown = before?.addresses.includes(address) === true;
        if (isKnown && (before.isPublic || !isPublic)) return;
        const others = (before?.addresses ?? []).filter((one) => one !== address);
        const origin: z.infer<typeof originSchema> = {
          version: 1,
          isPublic: isPublic || before?.isPublic === true,
          addresses: [address, ...others].slice(0, MAX_ADDRESSES),
        };
        await writeFileAtomic(path, JSON.stringify(origin));
      }),
    of: async (sha256) =>
      (await readJson(join(layout.origins, sha256), originSchema)) ?? { isPublic: false, addresses: [] },
  };
}
