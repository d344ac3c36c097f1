/** From a request to the remote files that make up the model. */
import { MetalbridgeError } from "../../src/errors.ts";
import { chooseGgufFiles } from "../../src/source/choose-file.ts";
import type { Source } from "../../src/source/source.ts";
import { splitFileNames } from "../../src/source/split-files.ts";
import { checkFileName } from "./names.ts";
import type { RemoteFile } from "./remote/download-context.ts";
import { fileUrl, type Repository, readRepository } from "./remote/hugging-face.ts";
import type { RemoteRules } from "./remote/request.ts";
import type { ModelRequest } from "./types.ts";

export interface Listing {
  readonly files: readonly RemoteFile[];
  /** Name of the projector among `files`. */
  readonly mmproj?: string;
  /** What the engine opens, relative to the view; empty for the folder. */
  readonly entry: string;
  /** The commit of a repository. */
  readonly revision?: string;
}

export interface ListingContext {
  readonly hfEndpoint: string;
  readonly rules: RemoteRules;
  readonly secretHeaders: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Throws MetalbridgeError or AttemptFailure. */
export async function listRemoteFiles(
  source: Source,
  request: ModelRequest,
  context: ListingContext,
): Promise<Listing> {
  switch (source.kind) {
    case "http":
      return listWeb(new URL(source.url), request);
    case "hf":
      return listRepository(source, request, context);
    default:
      throw new MetalbridgeError("SourceNotSupported", `${source.kind} sources are not fetched by hosts`);
  }
}

function listWeb(url: URL, request: ModelRequest): Listing {
  const own = url.pathname.endsWith("/") ? [] : [lastSegment(url)];
  const names = unique([...own, ...(request.files ?? [])].map(checkFileName).flatMap(splitFileNames));
  const beside = (name: string): URL => {
    if (name === own[0]) return url;
    const target = new URL(name.split("/").map(encodeURIComponent).join("/"), url);
    // Signed addresses carry their signature in the query.
    target.search = url.search;
    return target;
  };
  const files = names.map((name) => ({ name, url: beside(name) }));
  const { mmproj } = request;
  const projector =
    mmproj === undefined
      ? undefined
      : /^https?:/.test(mmproj)
        ? { name: checkFileName(lastSegment(new URL(mmproj))), url: new URL(mmproj) }
        : { name: checkFileName(mmproj), url: beside(mmproj) };
  return assemble(files, projector, request, undefined);
}

function lastSegment(url: URL): string {
  const segment = url.pathname.split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

async function listRepository(
  source: Extract<Source, { kind: "hf" }>,
  request: ModelRequest,
  context: ListingContext,
): Promise<Listing> {
  const { hfEndpoint, ...ask } = context;
  const found = await readRepository(hfEndpoint, source.repo, source.revision, ask);
  const asked = [...(source.file === undefined ? [] : [source.file]), ...(request.files ?? [])];
  if (found === undefined && asked.length === 0) {
    throw new MetalbridgeError(
      "SourceNotFound",
      `${source.repo} at ${source.revision} does not exist at ${hfEndpoint}`,
    );
  }
  // A mirror without the API still serves named files.
  const repository: Repository = found ?? { revision: source.revision, files: [] };
  const names =
    asked.length > 0
      ? asked.map(checkFileName).flatMap(splitFileNames)
      : chooseFiles(repository, source.repo, request);
  const known = new Map(repository.files.map((file) => [file.name, file]));
  const locate = (name: string): Omit<RemoteFile, "isGguf"> => {
    if (found !== undefined && !known.has(name)) {
      throw new MetalbridgeError(
        "SourceNotFound",
        `${source.repo} at ${source.revision} has no file ${name}`,
      );
    }
    const url = fileUrl(hfEndpoint, source.repo, repository.revision, name);
    const { sha256, sizeBytes } = known.get(name) ?? {};
    return { name, url, sha256, sizeBytes };
  };
  const projector = request.mmproj === undefined ? undefined : locate(checkFileName(request.mmproj));
  return assemble(unique(names).map(locate), projector, request, repository.revision);
}

/** The one model of a repository: its only GGUF (or set of shards), or for other formats all files. */
function chooseFiles(repository: Repository, repo: string, request: ModelRequest): readonly string[] {
  const names = repository.files.map((file) => file.name);
  if ((request.format ?? "gguf") !== "gguf") {
    const wanted = names.filter((name) => !/(^|\/)\.|\.(md|png|jpe?g|gif|pdf)$/i.test(name));
    if (wanted.length === 0) throw new MetalbridgeError("SourceNotFound", `${repo} holds no files`);
    return wanted.map(checkFileName);
  }
  return chooseGgufFiles({ available: names, repo }).map(checkFileName);
}

function assemble(
  weights: readonly Omit<RemoteFile, "isGguf">[],
  projector: Omit<RemoteFile, "isGguf"> | undefined,
  request: ModelRequest,
  revision: string | undefined,
): Listing {
  const [first] = weights;
  if (first === undefined) throw new MetalbridgeError("SourceNotFound", `${request.source} names no file`);
  const isGguf = (request.format ?? "gguf") === "gguf";
  const pinned = request.sha256 === undefined ? first : { ...first, sha256: request.sha256.toLowerCase() };
  const all = [
    pinned,
    ...weights.slice(1).filter((file) => file.name !== projector?.name),
    ...(projector === undefined ? [] : [projector]),
  ];
  return {
    files: all.map((file) => ({ ...file, isGguf })),
    entry: isGguf || all.length === 1 ? first.name : "",
    ...(projector === undefined ? {} : { mmproj: projector.name }),
    ...(revision === undefined ? {} : { revision }),
  };
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)];
}
