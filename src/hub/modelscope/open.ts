/** Reads a ModelScope repository: its files with their checksums at one revision. */
import { z } from "zod";
import type { RepositorySource } from "../../models/source/kinds/repository.ts";
import { parseJson } from "../../util/parse-json.ts";
import { bucketEndpointOf, bucketSettingsOf } from "../buckets/bucket.ts";
import { requestText } from "../client.ts";
import { isBelowUrl, permanent, plainUrl } from "../failure.ts";
import type { Access, FileList, SourceReader } from "../remote-source.ts";

const listSchema = z.object({
  Code: z.number(),
  Data: z
    .object({
      Files: z
        .array(
          z.object({
            Path: z.string().max(1024),
            Type: z.string().nullish(),
            Size: z.int().min(0).nullish(),
            Sha256: z.string().nullish(),
          }),
        )
        .max(20_000)
        .nullish(),
    })
    .nullish(),
});

const MAX_LIST_BYTES = 32 << 20;

export function openModelScope(
  { repo, revision: requested, file }: RepositorySource<"modelscope">,
  access: Access,
): SourceReader {
  const get = bucketSettingsOf(access);
  const named = get("MODELSCOPE_ENDPOINT");
  const { url: endpoint, rules } =
    named === undefined
      ? { url: new URL("https://modelscope.cn"), rules: access.rules }
      : bucketEndpointOf(named, access);
  const base = endpoint.href.replace(/\/+$/, "");
  const revision = encodeURIComponent(access.revision ?? requested);
  const token = get("MODELSCOPE_API_TOKEN", ...(access.credentials ? ["token", "password"] : []));
  // The API accepts the token as a cookie, and in newer parts as a bearer token.
  const headers = { authorization: `Bearer ${token}`, cookie: `m_session_id=${token}` };
  const authorize = async () => (token === undefined ? {} : headers);
  return {
    shown: `${repo} at ${access.revision ?? requested}`,
    named: file,
    rules,
    authorize,
    hasCredentials: token !== undefined,
    holds: isBelowUrl(`${base}/models/${repo}/`),
    list: async (signal) => {
      const url = new URL(`${base}/api/v1/models/${repo}/repo/files?Revision=${revision}&Recursive=true`);
      const request = { headers: { accept: "application/json" }, authorize, signal };
      const { text } = await requestText(url, request, rules, { maxBytes: MAX_LIST_BYTES });
      return parseList(text, url);
    },
    locate: (name) => {
      const path = name.split("/").map(encodeURIComponent).join("/");
      return new URL(`${base}/models/${repo}/resolve/${revision}/${path}`);
    },
  };
}

function parseList(text: string, url: URL): FileList {
  const parsed = listSchema.safeParse(parseJson(text));
  if (!parsed.success)
    throw permanent("SourceRefused", `${plainUrl(url)} does not answer like the ModelScope API`);
  const { Code, Data } = parsed.data;
  // Some refusals have status 200.
  if (Code !== 200) throw permanent("SourceNotFound", `${plainUrl(url)} answered with code ${Code}`);
  const files = (Data?.Files ?? [])
    .filter(({ Type }) => Type !== "tree")
    .map(({ Path, Size, Sha256 }) => ({
      name: Path,
      sizeBytes: Size ?? undefined,
      sha256: /^[0-9a-f]{64}$/i.test(Sha256 ?? "") ? Sha256?.toLowerCase() : undefined,
    }));
  return { files };
}
