/** A namespace of its own for each test, removed after it. */
import { randomBytes } from "node:crypto";
import type { Kubectl } from "./kubectl.ts";

export interface TestNamespace extends AsyncDisposable {
  readonly name: string;
}

/** Created with a unique name; disposal only orders the deletion, since nobody waits for it, and one that fails is no finding. */
export async function createNamespace(kubectl: Kubectl): Promise<TestNamespace> {
  const name = `test-${randomBytes(5).toString("hex")}`;
  await kubectl(["create", "namespace", name]);
  return {
    name,
    [Symbol.asyncDispose]: async () => {
      await kubectl(["delete", "namespace", name, "--wait=false", "--ignore-not-found"]).catch(() => {});
    },
  };
}
