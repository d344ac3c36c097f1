/** Compaction on demand through etcd's own HTTP gateway, since the real one comes every five minutes. */
import { request } from "node:http";

/** Compacts up to the newest revision and waits until the history is physically gone. */
export async function compactEtcd(socketPath: string): Promise<void> {
  const range = await post(socketPath, "/v3/kv/range", { key: "AA==" });
  const { header } = JSON.parse(range) as { header: { revision: string } };
  await post(socketPath, "/v3/kv/compaction", { revision: header.revision, physical: true });
}

function post(socketPath: string, path: string, body: unknown): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request(
      { socketPath, path, method: "POST", host: "localhost", signal: AbortSignal.timeout(10_000) },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.once("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          if (response.statusCode === 200) resolve(text);
          else reject(new Error(`etcd answered ${response.statusCode} to ${path}: ${text}`));
        });
      },
    );
    call.once("error", reject);
    call.end(JSON.stringify(body));
  });
}
