/** Loopback servers in the shape of Hugging Face and ModelScope: a list of files at a revision, and their content by range. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { sha256Hex } from "../../src/util/hash.ts";
import { serveHttp } from "../bed/http-server.ts";
import { sendFile } from "../fixtures/origin.ts";

export interface HubOrigin extends AsyncDisposable {
  readonly url: string;
  /** Paths of the requests so far, without their queries. */
  readonly paths: string[];
}

export interface HubRepository {
  readonly commit: string;
  readonly files: Readonly<Record<string, Buffer>>;
}

/** By `org/repo`. Lists answer for `main` and for the commit, files for the commit alone. */
export function startHub(repositories: Readonly<Record<string, HubRepository>>): Promise<HubOrigin> {
  return serve((path, request, response) => {
    for (const [repo, { commit, files }] of Object.entries(repositories)) {
      if (path === `/api/models/${repo}/revision/main` || path === `/api/models/${repo}/revision/${commit}`)
        return void response.end(JSON.stringify({ sha: commit, siblings: siblingsOf(files) }));
      const content = files[path.slice(`/${repo}/resolve/${commit}/`.length)];
      if (content !== undefined && path.startsWith(`/${repo}/resolve/${commit}/`))
        return sendFile(request, response, content);
    }
    response.writeHead(404).end();
  });
}

/** A repository of one file in the shape of ModelScope's API, at `master`. */
export function startModelScope(repo: string, name: string, content: Buffer): Promise<HubOrigin> {
  const Sha256 = sha256Hex(content);
  const list = { Code: 200, Data: { Files: [{ Path: name, Type: "blob", Size: content.length, Sha256 }] } };
  return serve((path, request, response) => {
    if (path === `/api/v1/models/${repo}/repo/files`) return void response.end(JSON.stringify(list));
    if (path === `/models/${repo}/resolve/master/${name}`) return sendFile(request, response, content);
    response.writeHead(404).end();
  });
}

async function serve(
  answer: (path: string, request: IncomingMessage, response: ServerResponse) => void,
): Promise<HubOrigin> {
  const paths: string[] = [];
  const server = await serveHttp((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://hub").pathname);
    paths.push(path);
    answer(path, request, response);
  });
  return { ...server, paths };
}

function siblingsOf(files: HubRepository["files"]) {
  return Object.entries(files).map(([rfilename, content]) => {
    const sha256 = sha256Hex(content);
    return { rfilename, size: content.length, lfs: { sha256, size: content.length } };
  });
}
