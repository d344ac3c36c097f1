/** etcd by its own HTTP gateway: what the API server does not offer. */
import { request } from "node:http";

/** Compaction on demand, since the real one comes every five minutes: compacts up to the newest revision and waits until the history is physically gone. */
export async function compactEtcd(socketPath: string): Promise<void> {
  const { header } = await post<{ header: { revision: string } }>(socketPath, "/v3/kv/range", {
    key: "AA==",
  });
  await post(socketPath, "/v3/kv/compaction", { revision: header.revision, physical: true });
}

export interface Stored {
  /** Base64, as all keys and values here. */
  readonly key: string;
  readonly value: string;
  readonly mod_revision: string;
}

/** All that the API server has stored, by key. */
export async function readStored(socketPath: string): Promise<ReadonlyMap<string, Stored>> {
  const range = { key: toBase64("/registry/"), range_end: toBase64("/registry0") };
  const { kvs = [] } = await post<{ kvs?: readonly Stored[] }>(socketPath, "/v3/kv/range", range);
  return new Map(kvs.map((stored) => [Buffer.from(stored.key, "base64").toString("utf8"), stored]));
}

/** Brings what is stored back to `before`, except keys that `isKept`. Resolves with the number of keys that differed. */
export async function restoreStored(
  socketPath: string,
  before: ReadonlyMap<string, Stored>,
  isKept: (key: string) => boolean,
): Promise<number> {
  const now = await readStored(socketPath);
  const operations = [
    ...[...now].flatMap(([name, { key }]) =>
      before.has(name) || isKept(name) ? [] : [{ request_delete_range: { key } }],
    ),
    ...[...before].flatMap(([name, { key, value }]) =>
      isKept(name) || now.get(name)?.value === value ? [] : [{ request_put: { key, value } }],
    ),
  ];
  for (let at = 0; at < operations.length; at += MAX_OPERATIONS)
    await post(socketPath, "/v3/kv/txn", { success: operations.slice(at, at + MAX_OPERATIONS) });
  return operations.length;
}

/** The largest transaction that etcd accepts by default. */
const MAX_OPERATIONS = 128;

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function post<T>(socketPath: string, path: string, body: unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    const call = request(
      { socketPath, path, method: "POST", host: "localhost", signal: AbortSignal.timeout(10_000) },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.once("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          if (response.statusCode === 200) resolve(JSON.parse(text));
          else reject(new Error(`etcd answered ${response.statusCode} to ${path}: ${text}`));
        });
      },
    );
    call.once("error", reject);
    call.end(JSON.stringify(body));
  });
}
