/** Resolves a Hugging Face repository, or a mirror with the same API, to its files at one commit. */
import * as z from "zod";
import { MetalbridgeError } from "../../../src/errors.ts";
import { AttemptFailure, lasting, passing, plainUrl, statusFailure } from "./failure.ts";
import { exchange, type RemoteRules } from "./request.ts";

const repositorySchema = z.object({
  sha: z.string().optional(),
  siblings: z
    .array(
      z.object({
        rfilename: z.string(),
        size: z.number().int().nonnegative().nullish(),
        lfs: z.object({ sha256: z.string().nullish(), size: z.number().nullish() }).nullish(),
      }),
    )
    .max(20_000),
});

export interface Repository {
  /** The commit, so that all files are of one state. */
  readonly revision: string;
  readonly files: readonly RepositoryFile[];
}

export interface RepositoryFile {
  readonly name: string;
  readonly sizeBytes?: number | undefined;
  readonly sha256?: string | undefined;
}

const MOST_BYTES = 32 << 20;

/** The repository's files, or undefined where the server has no such API (plain mirrors). */
export async function readRepository(
  endpoint: string,
  repo: string,
  revision: string,
  ask: { rules: RemoteRules; secretHeaders: Readonly<Record<string, string>>; signal: AbortSignal },
): Promise<Repository | undefined> {
  const url = new URL(
    `${base(endpoint)}/api/models/${repo}/revision/${encodeURIComponent(revision)}?blobs=true`,
  );
  const { rules, ...rest } = ask;
  const { response } = await exchange(
    url,
    { method: "GET", headers: { accept: "application/json" }, ...rest },
    rules,
  );
  try {
    if (response.statusCode === 404) return undefined;
    if (response.statusCode !== 200)
      throw statusFailure(url, response.statusCode ?? 0, response.headers["retry-after"]);
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES)
        throw lasting("SourceRefused", `${plainUrl(url)} answers with more than ${MOST_BYTES} bytes`);
      chunks.push(chunk);
    }
    return parseRepository(Buffer.concat(chunks).toString("utf8"), revision, url);
  } catch (error) {
    if (error instanceof AttemptFailure || error instanceof MetalbridgeError || ask.signal.aborted)
      throw error;
    throw passing("SourceTruncated", `the file list ${plainUrl(url)} ended early`, error);
  } finally {
    response.destroy();
  }
}

/** Where a file of the repository is downloaded from. */
export function fileUrl(endpoint: string, repo: string, revision: string, name: string): URL {
  const path = name.split("/").map(encodeURIComponent).join("/");
  return new URL(`${base(endpoint)}/${repo}/resolve/${encodeURIComponent(revision)}/${path}`);
}

function base(endpoint: string): string {
  return endpoint.replace(/\/+$/, "");
}

function parseRepository(text: string, revision: string, url: URL): Repository {
  const parsed = repositorySchema.safeParse(parseJson(text));
  if (!parsed.success)
    throw lasting("SourceRefused", `${plainUrl(url)} does not answer like the Hugging Face API`);
  const files = parsed.data.siblings.map(({ rfilename, size, lfs }) => ({
    name: rfilename,
    sizeBytes: lfs?.size ?? size ?? undefined,
    sha256: lfs?.sha256 != null && /^[0-9a-f]{64}$/i.test(lfs.sha256) ? lfs.sha256.toLowerCase() : undefined,
  }));
  return { revision: parsed.data.sha ?? revision, files };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
