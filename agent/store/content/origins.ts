/** Where each content came from, and whether it took credentials to get it: what is stored is not for everyone who knows its checksum. */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import type { Refs } from "../refs.ts";
import { listFolder, type StoreLayout } from "./layout.ts";

const originSchema = z.object({
  version: z.literal(1),
  /** It was downloaded without credentials. */
  isPublic: z.boolean(),
  /** Addresses of files, without query. */
  addresses: z.array(z.string()),
});

export type Origin = Pick<z.infer<typeof originSchema>, "isPublic" | "addresses">;

export interface ContentOrigins {
  /** Before the content is published, so that none is without its origin. */
  readonly note: (sha256: string, address: string, isPublic: boolean) => Promise<void>;
  /** Content that an earlier version stored counts as if it took credentials. */
  readonly of: (sha256: string) => Promise<Origin>;
}

/** More sources of one content than these are asked again. */
const MAX_ADDRESSES = 16;

export function createOrigins(layout: StoreLayout, refs: Pick<Refs, "all">): ContentOrigins {
  const inTurn = createSerializer();
  return {
    note: (sha256, address, isPublic) =>
      inTurn(async () => {
        const before = await read(layout, sha256);
        const isKnown = before?.addresses.includes(address) === true;
        if (isKnown && (before.isPublic || !isPublic)) return;
        const others = (before?.addresses ?? []).filter((one) => one !== address);
        const origin: z.infer<typeof originSchema> = {
          version: 1,
          isPublic: isPublic || before?.isPublic === true,
          addresses: [address, ...others].slice(0, MAX_ADDRESSES),
        };
        await writeFileAtomic(join(layout.origins, sha256), JSON.stringify(origin));
      }),
    of: async (sha256) => {
      const known = await read(layout, sha256);
      if (known !== undefined) return known;
      const files = refs.all().flatMap((ref) => ref.files);
      return {
        isPublic: false,
        addresses: files.filter((file) => file.sha256 === sha256).map(({ url }) => url),
      };
    },
  };
}

/** Removes those of content that is gone. */
export async function sweepOrigins(layout: StoreLayout): Promise<void> {
  const stored = new Set(await listFolder(layout.blobs));
  for (const name of await listFolder(layout.origins))
    if (!stored.has(name)) await rm(join(layout.origins, name), { force: true });
}

async function read(layout: StoreLayout, sha256: string): Promise<Origin | undefined> {
  try {
    const parsed = originSchema.safeParse(JSON.parse(await readFile(join(layout.origins, sha256), "utf8")));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    if (systemCode(error) === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
