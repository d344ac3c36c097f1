/** A namespace of its own for each test, removed after it. */
import { randomBytes } from "node:crypto";
import type { Kubectl } from "../bed/kubectl.ts";

export interface TestNamespace extends AsyncDisposable {
  readonly name: string;
}

/** Created with a unique name; disposal requests the deletion without waiting for it, and ignores its failure. */
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
