import { expect, it } from "vitest";
import { formatBytes } from "./bytes.ts";

it("gives sizes as people say them, with one digit at most", () => {
  const GIB = 1024 ** 3;
  const sizes = [41.2 * GIB, 96 * GIB, 1.04 * GIB, 64 * 1024 ** 2, 0, 1, 50_000].map(formatBytes);
  expect(sizes).toEqual(["41.2 GiB", "96 GiB", "1 GiB", "64 MiB", "0 MiB", "0.1 MiB", "0.1 MiB"]);
  expect([-3 * GIB, 0.25 * GIB, 1536 * GIB].map(formatBytes)).toEqual(["-3 GiB", "256 MiB", "1.5 TiB"]);
});
