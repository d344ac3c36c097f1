/** A namespace of its own for each test, removed after it. */
import { randomBytes } from "node:crypto";
import { connect } from "../../src/kube/client/connect.ts";

const TIMEOUT_MS = 60_000;

export interface TestNamespace extends AsyncDisposable {
  readonly name: string;
}

/**
 * Makes namespaces with a unique name over one kept connection, whose idle socket keeps no process alive. Disposal requests
 * the deletion without waiting for it, and ignores its failure.
 */
export function namespacesOf(kubeconfigPath: string): () => Promise<TestNamespace> {
  let opened: ReturnType<typeof connect> | undefined;
  return async () => {
    opened ??= connect({ kubeconfigPath });
    const { request } = await opened;
    const name = `test-${randomBytes(5).toString("hex")}`;
    const path = `/api/v1/namespaces/${name}`;
    // A patch is repeated on a new socket where the API server was restarted.
    const made = await request({
      method: "PATCH",
      path: `${path}?fieldManager=tests`,
      timeoutMs: TIMEOUT_MS,
      contentType: "application/apply-patch+yaml",
      body: JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name } }),
    });
    if (!made.ok) throw new Error(`namespace ${name}: ${made.error.message}`);
    return {
      name,
      [Symbol.asyncDispose]: async () => {
        await request({ method: "DELETE", path, timeoutMs: TIMEOUT_MS });
      },
    };
  };
}
