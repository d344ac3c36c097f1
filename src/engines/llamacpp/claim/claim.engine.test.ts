/** CPU: llama-server loads a model of every architecture, to be measured. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { measureBuffers } from "../../../../cli/calibrate/measure.ts";
import { type SparseModel, writeSparseModel } from "../../../../cli/calibrate/sparse-model.ts";
import { readGguf } from "../../../../cli/gguf/read.ts";
import { compareClaims } from "../../../../scripts/claims/compare.ts";
import { pairwiseCases } from "../../../../scripts/claims/grid.ts";
import { findLlamaServer } from "../../../../test/fixtures/llama-server.ts";
import { temporaryFolder } from "../../../../test/fixtures/temporary-folder.ts";
import { estimateClaim } from "./claim.ts";

const program = findLlamaServer() ?? "";
const MIB = 1 << 20;

// Without a llama-server (npm run setup gets one) there is nothing to compare with.
describe.skipIf(program === "")("the claim against the buffers that llama-server prints", () => {
  test.each(pairwiseCases({ isBrief: true }).map((one) => [JSON.stringify(one), one] as const))(
    "%s",
    async (_name, one) => {
      await using folder = await temporaryFolder();
      const { estimated, printed, error } = await compareClaims(program, folder.path, one);
      expect(error).toBeLessThan(0.05);
      expect(error).toBeGreaterThan(-0.02);
      expect(estimated.weightsBytes / MIB).toBeCloseTo(printed.weightsBytes / MIB, 1);
      expect(estimated.kvBytes / MIB).toBeCloseTo(printed.kvBytes / MIB, 1);
    },
  );

  const shape = { layers: 6, width: 1024, heads: 16, kvHeads: 4, headSize: 64, feedForward: 2816 };
  const llama: SparseModel = { architecture: "llama", ...shape, vocabulary: 32_000 };

  test("a draft model is counted with its own cache, logits for every guess", async () => {
    await using folder = await temporaryFolder();
    const [path, draftPath] = [join(folder.path, "model.gguf"), join(folder.path, "draft.gguf")];
    await writeSparseModel(path, llama);
    await writeSparseModel(draftPath, { ...llama, width: 512, heads: 8, layers: 2 });
    const settings = {
      contextSize: 8192,
      parallelSlots: 4,
      uBatchSize: 64,
      cacheTypeK: "q8_0",
      speculativeDecoding: { type: "draft-simple" },
    } as const;
    const [{ summary }, draft] = [await readGguf(path), await readGguf(draftPath)];
    const claim = estimateClaim(summary, { ...settings, draft: draft.summary });
    const printed = await measureBuffers(program, path, settings, {
      more: ["--spec-type", "draft-simple", "--spec-draft-model", draftPath],
    });
    const { weightsBytes, kvBytes, computeBytes, outputBytes, draftBytes } = claim;
    const error = (weightsBytes + kvBytes + computeBytes + outputBytes + draftBytes) / printed.totalBytes - 1;
    expect(error).toBeLessThan(0.05);
    expect(error).toBeGreaterThan(-0.02);
  });

  test.each(["ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"] as const)(
    "%s has logits for every guess of its longest draft",
    async (type) => {
      await using folder = await temporaryFolder();
      const path = join(folder.path, "model.gguf");
      await writeSparseModel(path, llama);
      const settings = {
        contextSize: 8192,
        parallelSlots: 8,
        uBatchSize: 256,
        speculativeDecoding: { type },
      };
      const claim = estimateClaim((await readGguf(path)).summary, settings);
      const printed = await measureBuffers(program, path, settings, { more: ["--spec-type", type] });
      expect(claim.computeBytes / printed.computeBytes).toBeCloseTo(1, 2);
    },
  );

  test("embedding wants the result of every token and no logits", async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, "model.gguf");
    await writeSparseModel(path, { ...llama, vocabulary: 64_000 });
    const settings = { mode: "embedding", contextSize: 8192, parallelSlots: 16, uBatchSize: 1024 } as const;
    const claim = estimateClaim((await readGguf(path)).summary, settings);
    const printed = await measureBuffers(program, path, settings, {
      more: ["--embedding", "--pooling", "mean"],
    });
    expect(claim.computeBytes / printed.computeBytes).toBeCloseTo(1, 1);
    expect(claim.outputBytes / MIB).toBeCloseTo(printed.outputBytes / MIB, 1);
  });
});
