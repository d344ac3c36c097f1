/** Reads the state of a source's files without a download: from its list, or else with one HEAD request per file. */
import { canonicalJson, hash } from "../../util/hash.ts";
import type { OpenSource } from "../remote-source.ts";
import { readValidator } from "../validator.ts";
import type { ResolvedSource } from "./resolve.ts";

export interface SourceMark {
  /** Hash of the names of the files and the source's metadata for each. A different marker means different content. */
  readonly changeMarker: string;
  /** Commit or digest that identifies exactly this content, if the source has one. */
  readonly revision?: string;
}

/** Matches a commit or the digest of a manifest. */
const COMMIT = /^([0-9a-f]{40,64}|sha256:[0-9a-f]{64})$/;

export function isCommit(revision: string | undefined): revision is string {
  return revision !== undefined && COMMIT.test(revision);
}

/**
 * Reads the same marker in the controller and on hosts for the same content. For a server without ETag and Last-Modified,
 * only a change of the size is detected. Throws SourceFailure.
 */
export async function readMark(
  source: OpenSource,
  { files, projector, revision }: ResolvedSource,
  signal: AbortSignal,
): Promise<SourceMark> {
  const commit = isCommit(revision) ? revision : undefined;
  const marks: unknown[] = [];
  // A commit that does not change these files must not change the marker.
  for (const { name, url, sha256, contentId } of [...files, ...(projector === undefined ? [] : [projector])])
    marks.push([name, sha256 ?? contentId ?? commit ?? (await validatorAt(source, url, signal))]);
  return { changeMarker: hash(canonicalJson(marks), 32), revision: commit };
}

async function validatorAt(source: OpenSource, url: URL, signal: AbortSignal): Promise<readonly unknown[]> {
  const validator = await readValidator(source, url, signal);
  if (validator === "notModified") return [];
  const { etag, lastModified, totalBytes } = validator;
  return [etag ?? lastModified ?? null, totalBytes ?? null];
}
