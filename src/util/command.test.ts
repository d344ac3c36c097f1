import fc from "fast-check";
import { expect, test } from "vitest";
import { createRunCommand, createRunTool } from "./command.ts";

const PATH = "/usr/bin:/bin";
const LIMIT = 4 << 20;

test("a tool's output is taken up to 4 MiB", async () => {
  const [run, runTool] = [createRunCommand(PATH, 30_000), createRunTool(PATH, 30_000)];
  const size = fc.oneof(fc.integer({ min: 1, max: LIMIT }), fc.integer({ min: LIMIT + 1, max: 3 * LIMIT }));
  await fc.assert(
    fc.asyncProperty(size, fc.boolean(), async (bytes, partial) => {
      const args = ["-c", String(bytes), "/dev/zero"];
      const output = await run("head", args, { partial });
      if (bytes <= LIMIT) expect(output).toHaveLength(bytes);
      else if (!partial) expect(output).toBeUndefined();
      expect(output?.length ?? 0).toBeLessThanOrEqual(LIMIT);
      const result = await runTool("head", args);
      if (bytes <= LIMIT) expect(result).toMatchObject({ code: 0 });
      else expect(result).toHaveProperty("failed");
    }),
    { numRuns: 15 },
  );
});

test("a tool that does not end is killed in time", async () => {
  expect(await createRunCommand(PATH, 50)("sleep", ["600"])).toBeUndefined();
  expect(await createRunTool(PATH, 50)("sleep", ["600"])).toEqual({
    failed: "sleep did not end within 0.05 s",
  });
});
