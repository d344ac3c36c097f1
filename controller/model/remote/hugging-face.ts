/** Looks up what a Hugging Face repository, or a mirror with the same API, holds at one commit. */
import { z } from "zod";
import { type ExchangeOptions, exchange, type RemoteConfig, stalled } from "./exchange.ts";
import { LookFailure, lasting, passing, plainUrl, statusFailure } from "./failure.ts";

const repositorySchema = z.object({
  sha: z.string().max(128).optional(),
  siblings: z
    .array(
      z.object({
        rfilename: z.string().max(1024),
        size: z.int().min(0).nullish(),
        lfs: z.object({ sha256: z.string().nullish(), size: z.int().min(0).nullish() }).nullish(),
      }),
    )
    .max(20_000),
});

export interface Repository {
  readonly revision: string;
  readonly files: ReadonlyMap<
    string,
    { readonly sizeBytes: number | undefined; readonly sha256: string | undefined }
  >;
}

const MAX_LIST_BYTES = 32 << 20;

/** The repository's files; undefined where the server has no such API, or no such repository. */
export async function readRepository(
  repo: string,
  revision: string,
  request: Omit<ExchangeOptions, "headers">,
  config: RemoteConfig,
): Promise<Repository | undefined> {
  const url = new URL(
    `${base(config)}/api/models/${repo}/revision/${encodeURIComponent(revision)}?blobs=true`,
  );
  const answer = await exchange(url, { ...request, headers: { accept: "application/json" } }, config);
  const { response, status } = answer;
  try {
    if (status === 404) return undefined;
    if (status !== 200) throw statusFailure(url, status, response.headers["retry-after"]);
    response.setTimeout(config.stallMs, () => response.destroy(stalled(url, config)));
    return parse(await text(url, response), revision, url);
  } finally {
    response.destroy();
  }
}

/** Where a file of a repository is read from. */
export function repositoryFileUrl(repo: string, revision: string, file: string, config: RemoteConfig): URL {
  const path = file.split("/").map(encodeURIComponent).join("/");
  return new URL(`${base(config)}/${repo}/resolve/${encodeURIComponent(revision)}/${path}`);
}

async function text(url: URL, response: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      bytes += chunk.length;
      if (bytes > MAX_LIST_BYTES)
        throw lasting(
          "SourceRefused",
          `the file list ${plainUrl(url)} is longer than ${MAX_LIST_BYTES} bytes`,
        );
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof LookFailure) throw error;
    throw passing("SourceTruncated", `the file list ${plainUrl(url)} ended early`, error);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parse(body: string, revision: string, url: URL): Repository {
  const parsed = repositorySchema.safeParse(json(body));
  if (!parsed.success)
    throw lasting("SourceRefused", `${plainUrl(url)} does not answer like the Hugging Face API`);
  const files = parsed.data.siblings.map(({ rfilename, size, lfs }) => {
    const sha256 = lfs?.sha256 ?? undefined;
    return [rfilename, { sizeBytes: lfs?.size ?? size ?? undefined, sha256 }] as const;
  });
  return { revision: parsed.data.sha ?? revision, files: new Map(files) };
}

function json(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function base({ hfEndpoint }: RemoteConfig): string {
  return hfEndpoint.replace(/\/+$/, "");
}
