/** Resolves a source and the file selection of a Model to files with addresses, for the controller and for hosts. */
import { MetalbridgeError } from "../../api/errors.ts";
import {
  type FileSelector,
  isExcluded,
  type SelectedFiles,
  selectFiles,
} from "../../models/source/select.ts";
import type { OpenSource } from "../remote-source.ts";

export interface RemoteFile {
  /** The checked, relative name that the engine requires. */
  readonly name: string;
  readonly url: URL;
  /** Hex in lower case, if it is known. */
  readonly sha256?: string | undefined;
  readonly sizeBytes?: number | undefined;
  readonly contentId?: string | undefined;
}

export interface ResolvedSource extends Pick<SelectedFiles, "format" | "entry" | "isChosen"> {
  /** The weights, the main file first. */
  readonly files: readonly RemoteFile[];
  readonly projector?: RemoteFile;
  /** The commit of all files; undefined if the source has none or did not list it. */
  readonly revision?: string | undefined;
}

/** If the source lists another checksum than the Model: a download could only fail. */
export function checksumProblem(
  name: string,
  listed: string | undefined,
  stated: string | undefined,
): MetalbridgeError | undefined {
  if (listed === undefined || stated === undefined || listed === stated.toLowerCase()) return undefined;
  return new MetalbridgeError(
    "ChecksumMismatch",
    `the source lists sha256 ${listed} for ${name}, and spec.sha256 of the Model is ${stated.toLowerCase()}`,
  );
}

/** Lists the source and selects the model's files. Throws SourceFailure, or MetalbridgeError for an invalid selection. */
export async function resolveSource(
  source: OpenSource,
  selector: FileSelector,
  signal: AbortSignal,
): Promise<ResolvedSource> {
  const list = await source.list(signal);
  const { shown, named } = source;
  const available = list?.files.map(({ name }) => name);
  const offered = list?.projector;
  const isOffered = offered !== undefined && !isExcluded(offered, selector);
  const withProjector = { ...selector, mmproj: selector.mmproj ?? (isOffered ? offered : undefined) };
  const { files, projector, format, entry, isChosen } = selectFiles(
    { shown, named, available },
    withProjector,
  );
  const locate = async (name: string, at: string): Promise<RemoteFile> => {
    const { sizeBytes, sha256, contentId } = list?.files.find((file) => file.name === name) ?? {};
    const url = source.locate(at, list);
    return { name, url, sizeBytes, contentId, sha256: sha256 ?? (await source.checksum?.(name, signal)) };
  };
  const located: RemoteFile[] = [];
  for (const name of files) located.push(await locate(name, name));
  return {
    files: located,
    projector: projector === undefined ? undefined : await locate(projector.name, projector.at),
    format,
    entry,
    isChosen,
    revision: list?.revision,
  };
}
