import { expect, test } from "vitest";
import type { Model } from "../../api/model.ts";
import { implausibility } from "./measurement.ts";

const dense = { layerCount: 32 };
const mixture = { layerCount: 48, expertCount: 128, sizing: { expertsUsed: 8 } };
const GB = 1e9;

/** On a class with 273 GB/s, as that of an M4 Pro. */
test.each<
  [tokensPerSecond: number, gguf: object | undefined, bytes: number, settings: object, isResult: boolean]
>([
  [47, dense, 4.9 * GB, {}, true],
  [220, dense, 4.9 * GB, {}, true],
  [230, dense, 4.9 * GB, {}, false],
  [99_000, dense, 4.9 * GB, {}, false],
  [80, mixture, 18.6 * GB, {}, true],
  [940, mixture, 18.6 * GB, {}, false],
  [80, undefined, 17 * GB, {}, true],
  [99_000, undefined, 17 * GB, {}, false],
  [0.5, dense, 4.9 * GB, {}, false],
  [0.5, dense, 4.9 * GB, { gpuLayers: "0" }, true],
  [0.5, dense, 0.6 * GB, {}, true],
  [5_000, dense, 4e6, {}, true],
  [99_000, dense, 0, {}, true],
])("%d tokens/s of %o with %d bytes and %o: %s", (median, gguf, bytes, settings, isResult) => {
  const status = { weightsBytes: bytes, gguf } as Model["status"];
  const measured = { generation: { median, spread: 0, samples: [median] } };
  const why = implausibility(
    measured,
    { status },
    { settings, bandwidth: { least: 273 * GB, most: 273 * GB } },
  );
  expect(why === undefined, why).toBe(isResult);
  expect(implausibility(measured, { status }, { settings, bandwidth: undefined })).toBe(undefined);
});

test("a processor of an unknown class may be slow, and no processor reads a terabyte a second", () => {
  const status = { weightsBytes: 4.1 * GB, gguf: dense } as Model["status"];
  const reasonAt = (median: number) =>
    implausibility(
      { generation: { median, spread: 0, samples: [median] } },
      { status },
      { settings: {}, bandwidth: { least: 0, most: 1_000 * GB } },
    );
  expect(reasonAt(0.4)).toBe(undefined);
  expect(reasonAt(2_000)).toContain("tokens/s");
});
