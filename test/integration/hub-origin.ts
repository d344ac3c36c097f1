/** A loopback server in the shape of Hugging Face: a list of files at a commit, and their content by range. */
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { sendFile } from "../../agent/store/fixtures/origin.ts";

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
export async function startHub(repositories: Readonly<Record<string, HubRepository>>): Promise<HubOrigin> {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://hub").pathname);
    paths.push(path);
    for (const [repo, { commit, files }] of Object.entries(repositories)) {
      if (path === `/api/models/${repo}/revision/main` || path === `/api/models/${repo}/revision/${commit}`)
        return void response.end(JSON.stringify({ sha: commit, siblings: siblingsOf(files) }));
      const content = files[path.slice(`/${repo}/resolve/${commit}/`.length)];
      if (content !== undefined && path.startsWith(`/${repo}/resolve/${commit}/`))
        return sendFile(request, response, content);
    }
    response.writeHead(404).end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

function siblingsOf(files: HubRepository["files"]) {
  return Object.entries(files).map(([rfilename, content]) => {
    const sha256 = createHash("sha256").update(content).digest("hex");
    return { rfilename, size: content.length, lfs: { sha256, size: content.length } };
  });
}
