/** A service from `kubectl apply` to an answer on a real node, and what its users see while its pods are replaced. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { localVolume } from "../bed/node/volumes.ts";
import { type PodsBed, startPodsBed } from "./bed.ts";

const why = whyNoRealNode();

describe.skipIf(why !== undefined)(`serving in pods${why === undefined ? "" : ` (skipped: ${why})`}`, () => {
  let bed: PodsBed;
  beforeAll(async () => {
    bed = await startPodsBed();
  });
  afterAll(() => bed?.[Symbol.asyncDispose]());

  test("a Model and a service answer through the ClusterIP, from weights that the pod fetched to its claim", async ({
    annotate,
  }) => {
    const node = bed.cluster.node("node-1");
    await localVolume(bed.kubectl, node, { size: "4Gi" });
    const started = performance.now();
    await bed.apply("chat");
    await bed.until("chat", { phase: "Ready", readyReplicas: 1 });
    await annotate(`ready ${Math.round(performance.now() - started)} ms after kubectl apply`);
    expect(await bed.ask(node, "chat")).toContain("choices");
  });
});
