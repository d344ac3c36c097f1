/** The state of a source's files without a download: from its list, else from one HEAD for each file. */
import { canonicalJson, hash } from "../../util/hash.ts";
import type { OpenSource } from "../remote-source.ts";
import { readValidator } from "../validator.ts";
import type { ResolvedSource } from "./resolve.ts";

export interface SourceMark {
  /** Hash of the files' names and of what the source says of each: another one means other content. */
  readonly changeMarker: string;
  /** Commit or digest under which exactly this content can be fetched, where the source has such a thing. */
  readonly revision?: string;
}

/** A commit, or the digest of a manifest. */
const COMMIT = /^([0-9a-f]{40,64}|sha256:[0-9a-f]{64})$/;

export function isCommit(revision: string | undefined): revision is string {
  return revision !== undefined && COMMIT.test(revision);
}

/**
 * Controller and hosts read the same one for the same content. A server that gives neither ETag nor Last-Modified shows
 * only changes of the size. Throws SourceFailure.
 */
export async function readMark(
  source: OpenSource,
  { files, projector, revision }: ResolvedSource,
  signal: AbortSignal,
): Promise<SourceMark> {
  const commit = isCommit(revision) ? revision : undefined;
  const marks: unknown[] = [];
  // A commit that leaves these files as they were is no change of them.
  for (const { name, url, sha256, contentId } of [...files, ...(projector === undefined ? [] : [projector])])
    marks.push([name, sha256 ?? contentId ?? commit ?? (await validatorAt(source, url, signal))]);
  const changeMarker = hash(canonicalJson(marks), 32);
  return commit === undefined ? { changeMarker } : { changeMarker, revision: commit };
}

async function validatorAt(source: OpenSource, url: URL, signal: AbortSignal): Promise<readonly unknown[]> {
  const validator = await readValidator(source, url, signal);
  if (validator === "notModified") return [];
  const { etag, lastModified, totalBytes } = validator;
  return [etag ?? lastModified ?? null, totalBytes ?? null];
}
