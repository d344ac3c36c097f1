/** Reads release.json, the list of a release's files. `npm run release` writes it, install and upgrade check it. */
import { createHash } from "node:crypto";
import { closeSync, lstatSync, openSync, readSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, normalize } from "node:path";
import * as z from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import { isVersion } from "../plan/version.ts";

export const MANIFEST = "release.json";

const relativePath = z
  .string()
  .refine(
    (path) => path !== "" && normalize(path) === path && !path.startsWith("/") && !path.startsWith(".."),
  );

const manifestSchema = z.object({
  version: z.string().refine(isVersion, "is not a version"),
  /** Node's platform and architecture, such as darwin-arm64. */
  platform: z.string().min(1),
  /** The version of the included Node. */
  node: z.string().min(1),
  /** SHA-256 by path. */
  files: z.record(relativePath, z.string().regex(/^[0-9a-f]{64}$/)),
});

export type ReleaseManifest = z.infer<typeof manifestSchema>;

/** Undefined if the folder is not a release. Throws ReleaseInvalid. */
export async function readReleaseManifest(folder: string): Promise<ReleaseManifest | undefined> {
  const text = await readFile(join(folder, MANIFEST), "utf8").catch(() => undefined);
  return text === undefined ? undefined : parseReleaseManifest(text, join(folder, MANIFEST));
}

/** `name` is the file's name for messages. Throws ReleaseInvalid. */
export function parseReleaseManifest(text: string, name: string): ReleaseManifest {
  const parsed = manifestSchema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalidRelease(`${name}: ${issue?.path.join(".")} ${issue?.message}`);
}

/** Throws ReleaseInvalid for the first file that is missing, is a link, or has different content. */
export async function checkFiles(folder: string, { files }: ReleaseManifest): Promise<void> {
  for (const [path, expected] of Object.entries(files)) {
    const file = join(folder, path);
    const found = lstatSync(file, { throwIfNoEntry: false });
    if (found === undefined) throw invalidRelease(`${path} is missing`);
    if (!found.isFile()) throw invalidRelease(`${path} is not a regular file`);
    const sum = await sha256Of(file);
    if (sum !== expected) throw invalidRelease(`${path} has the SHA-256 ${sum}, not ${expected}`);
  }
}

/** Throws ReleaseInvalid if the release is not for this machine. */
export function checkPlatform({ platform, version }: ReleaseManifest, currentPlatform: string): void {
  if (platform !== currentPlatform)
    throw invalidRelease(`version ${version} is for ${platform}; this machine is ${currentPlatform}`);
}

const CHUNK_BYTES = 1 << 18;

/**
 * Reads synchronously, because an installation hashes hundreds of small files three times, and asynchronous calls would use
 * more CPU time than hashing.
 */
export async function sha256Of(file: string): Promise<string> {
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const descriptor = openSync(file, "r");
  try {
    for (let bytes = readSync(descriptor, chunk); bytes > 0; bytes = readSync(descriptor, chunk))
      hash.update(chunk.subarray(0, bytes));
  } finally {
    closeSync(descriptor);
  }
  return hash.digest("hex");
}

export function invalidRelease(message: string): MetalbridgeError {
  return new MetalbridgeError("ReleaseInvalid", message);
}
