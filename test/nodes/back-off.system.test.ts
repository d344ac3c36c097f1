/** The same faults with the pauses that a kubelet and a download really make: minutes in which the service says one thing. */
import { afterAll, beforeAll, describe, test } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { type PodsBed, startPodsBed } from "./bed.ts";
import { EPHEMERAL, faultsIn } from "./faults.ts";

const MINUTES = { timeoutMs: 270_000, everyMs: 500 };

describeUnless(whyNoRealNode(), "faults in pods for minutes", () => {
  let bed: PodsBed;
  beforeAll(async () => {
    bed = await startPodsBed();
  });
  afterAll(() => bed?.[Symbol.asyncDispose]());

  describe.concurrent("side by side", () => {
    test("containers that crash through all of their back-off are one phase and one Event", async () => {
      const { until, untilReady, expectSteadyCrash } = faultsIn(bed);
      const extraArgs = ["--threads", "1", "--grammar", "broken("];
      await bed.apply("flag", { ...EPHEMERAL, extraArgs });
      await bed.apply("init-oom", EPHEMERAL, { resources: { memory: "12Mi" } });
      const restarted = /has restarted ([4-9]|\d\d) times/;
      await Promise.all(
        ["flag", "init-oom"].map((name) => until(name, "PodCrashing", restarted, "Degraded", MINUTES)),
      );
      for (const name of ["flag", "init-oom"]) await expectSteadyCrash(name);
      // The change makes new pods, which do not wait for the back-off.
      await bed.patch("isvc/flag", { spec: { extraArgs: ["--threads", "1"] } });
      await bed.patch("model/init-oom", { spec: { resources: { memory: "256Mi" } } });
      await untilReady("flag", "init-oom");
    });

    test("an init container whose source sends nothing for minutes says so, and its correction is enough", async () => {
      const { until, untilReady } = faultsIn(bed);
      await bed.apply("stalls", EPHEMERAL, { source: `${bed.origin}/stalls.gguf` });
      await until(
        "stalls",
        "SourceStalled",
        /fetch of .*sent no data for 30 s.*To do: /,
        "Degraded",
        MINUTES,
      );
      await bed.patch("model/stalls", { spec: { source: `${bed.origin}/good.gguf` } });
      await untilReady("stalls");
    });
  });
});
