/** Reads a Hugging Face repository, or one on a mirror with the same API, at one commit. */
import { z } from "zod";
import { bearerHeaders } from "../../models/source/credentials.ts";
import type { RepositorySource } from "../../models/source/kinds/repository.ts";
import { parseJson } from "../../util/parse-json.ts";
import { requestText, type SourceResponse } from "../client.ts";
import { isBelowUrl, permanent, plainUrl } from "../failure.ts";
import type { Access, FileList, SourceReader } from "../remote-source.ts";

const repositorySchema = z.object({
  sha: z.string().max(128).optional(),
  siblings: z
    .array(
      z.object({
        rfilename: z.string().max(1024),
        blobId: z.string().max(64).nullish(),
        size: z.int().min(0).nullish(),
        lfs: z.object({ sha256: z.string().nullish(), size: z.int().min(0).nullish() }).nullish(),
      }),
    )
    .max(20_000),
});

const MAX_LIST_BYTES = 32 << 20;

export function openHuggingFace(
  { repo, revision: requested, file }: RepositorySource<"hf">,
  access: Access,
): SourceReader {
  const base = access.hfEndpoint.replace(/\/+$/, "");
  const revision = access.revision ?? requested;
  // The operator's own endpoint may have any address except a link-local one.
  const rules = { ...access.rules, trustedHost: new URL(base).host };
  const authorization = bearerHeaders(access.credentials ?? access.machineCredentials);
  const authorize = async () => authorization;
  return {
    authorize,
    hasCredentials: Object.keys(authorization).length > 0,
    holds: isBelowUrl(`${base}/${repo}/`),
    shown: `${repo} at ${revision}`,
    named: file,
    rules,
    list: async (signal) => {
      const url = new URL(`${base}/api/models/${repo}/revision/${encodeURIComponent(revision)}?blobs=true`);
      const headers = { accept: "application/json" };
      let isMissing = false;
      const limits = {
        maxBytes: MAX_LIST_BYTES,
        onStatus: ({ status }: SourceResponse) => {
          isMissing = status === 404;
        },
      };
      try {
        const { text } = await requestText(url, { headers, authorize, signal }, rules, limits);
        return parseList(text, revision, url);
      } catch (error) {
        // Mirrors without the API answer 404.
        if (isMissing) return undefined;
        throw error;
      }
    },
    locate: (name, list) => {
      const path = name.split("/").map(encodeURIComponent).join("/");
      return new URL(`${base}/${repo}/resolve/${encodeURIComponent(list?.revision ?? revision)}/${path}`);
    },
  };
}

function parseList(text: string, revision: string, url: URL): FileList {
  const parsed = repositorySchema.safeParse(parseJson(text));
  if (!parsed.success)
    throw permanent("SourceRefused", `${plainUrl(url)} does not answer like the Hugging Face API`);
  const files = parsed.data.siblings.map(({ rfilename, size, lfs, blobId }) => ({
    name: rfilename,
    contentId: blobId ?? undefined,
    sizeBytes: lfs?.size ?? size ?? undefined,
    sha256: /^[0-9a-f]{64}$/i.test(lfs?.sha256 ?? "") ? lfs?.sha256?.toLowerCase() : undefined,
  }));
  return { revision: parsed.data.sha ?? revision, files };
}
