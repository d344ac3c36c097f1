/** Objects as the API server has them, over one kept connection: what polls by kubectl spends more CPU on it than on what it tests. */
import { connect } from "../../src/kube/client/connect.ts";
import { collectionPath, objectPath } from "../../src/kube/client/paths.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";

const TIMEOUT_MS = 30_000;

export type Reader = Awaited<ReturnType<typeof openReader>>;

/** What it reads is not typed, as kubectl's JSON is not. It rejects with the API server's sentence. */
export async function openReader(kubeconfigPath: string) {
  const connection = await connect({ kubeconfigPath });
  const read = async (path: string) => {
    const answer = await connection.request({ method: "GET", path, timeoutMs: TIMEOUT_MS });
    if (!answer.ok) throw new Error(`GET ${path}: ${answer.error.message}`);
    return JSON.parse(answer.value);
  };
  return {
    get: (kind: Kind<KubeObject>, name: string, namespace = "default") =>
      read(objectPath(kind, { name, namespace })),
    /** Those of a namespace that carry the label `name=value`, or all of them. */
    list: async (kind: Kind<KubeObject>, labelSelector?: string, namespace = "default") =>
      (await read(collectionPath(kind, namespace, { labelSelector }))).items,
    [Symbol.dispose]: () => connection.close(),
  };
}
