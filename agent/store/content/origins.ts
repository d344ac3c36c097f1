/** Where each content came from, and whether it took credentials to get it: what is stored is not for everyone who knows its checksum. */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { plainUrl } from "../../../src/hub/failure.ts";
import { type OpenSource, readValidator } from "../../../src/hub/source.ts";
import type { Validator } from "../../../src/hub/validator.ts";
import { systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { createSerializer } from "../../../src/util/serializer.ts";
import type { Refs } from "../refs.ts";
import type { StoreFile } from "../remote/download-context.ts";
import { type RetryLimits, withRetries } from "../remote/retry.ts";
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

export interface OriginCheck extends RetryLimits {
  readonly source: OpenSource;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Content that took credentials is given to a request for the same file, or for one of the same place that its list states
 * the checksum of, if the origin accepts the request's own credentials. A checksum beside another source proves nothing.
 */
export async function mayReuseContent(
  { isPublic, addresses }: Origin,
  file: Pick<StoreFile, "url" | "isListed">,
  asking: OriginCheck,
): Promise<boolean> {
  if (isPublic) return true;
  const isSame = addresses.includes(plainUrl(file.url));
  if (!isSame && !(file.isListed && addresses.some(asking.source.holds))) return false;
  return (await readFromOrigin(file, asking)) !== undefined;
}

/** What the origin says of the file; undefined where it refuses, or does not answer: the download then says what is wrong. */
export async function readFromOrigin(
  { url }: { readonly url: URL },
  asking: OriginCheck,
): Promise<Validator | undefined> {
  const { source, signal } = asking;
  try {
    const found = await withRetries(() => readValidator(source, url, signal), asking, asking);
    return found === "notModified" ? {} : found;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
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
