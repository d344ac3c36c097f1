/** From a source and what a Model wants of it to files with addresses, for the controller and for hosts alike. */
import { type FileSelector, type Selection, selectFiles } from "../../models/source/select.ts";
import type { OpenSource } from "../remote-source.ts";

export interface RemoteFile {
  /** As the engine must see it: relative, checked. */
  readonly name: string;
  readonly url: URL;
  /** Hex in lower case, where it is known. */
  readonly sha256?: string | undefined;
  readonly sizeBytes?: number | undefined;
  readonly contentId?: string | undefined;
}

export interface ResolvedSource extends Pick<Selection, "format" | "entry" | "isChosen"> {
  /** The weights, the main file first. */
  readonly files: readonly RemoteFile[];
  readonly projector?: RemoteFile;
  /** The commit that all files are of; undefined where the source has none, or did not list it. */
  readonly revision?: string | undefined;
}

/** Lists the source and selects the model's files. Throws SourceFailure, or MetalbridgeError for what cannot be selected. */
export async function resolveSource(
  source: OpenSource,
  wish: FileSelector,
  signal: AbortSignal,
): Promise<ResolvedSource> {
  const list = await source.list(signal);
  const { shown, named } = source;
  const available = list?.files.map(({ name }) => name);
  const wanted = { ...wish, mmproj: wish.mmproj ?? list?.projector };
  const { files, projector, format, entry, isChosen } = selectFiles({ shown, named, available }, wanted);
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
