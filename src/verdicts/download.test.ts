import { expect, test } from "vitest";
import {
  type Download,
  downloadText,
  downloadWord,
  secondsLeft,
  shareOf,
  sumOfDownloads,
} from "./download.ts";

const GIB = 2 ** 30;

test.each<[string, Download[], string]>([
  ["nothing", [], "Fetching"],
  ["a size that is not known", [{ bytes: 5 }], "Fetching"],
  ["a size of zero", [{ bytes: 0, totalBytes: 0 }], "Fetching"],
  ["one download", [{ bytes: 62, totalBytes: 100 }], "Fetching 62 %"],
  ["almost all", [{ bytes: 999, totalBytes: 1_000 }], "Fetching 99 %"],
  ["more than announced", [{ bytes: 12, totalBytes: 10 }], "Fetching 100 %"],
  [
    "two, by their sizes",
    [
      { bytes: 10, totalBytes: 10 },
      { bytes: 0, totalBytes: 30 },
    ],
    "Fetching 25 %",
  ],
  ["two, one without a size", [{ bytes: 10, totalBytes: 10 }, { bytes: 3 }], "Fetching"],
])("the word for %s", (_case, all, word) => {
  expect(downloadWord("Fetching", all)).toBe(word);
});

test.each<[Download, string]>([
  [{ bytes: 3 * GIB, totalBytes: 10 * GIB, bytesPerSecond: GIB / 10 }, "3 GiB of 10 GiB, 102.4 MiB/s"],
  [{ bytes: GIB, totalBytes: 2 * GIB }, "1 GiB of 2 GiB"],
  [{ bytes: GIB, bytesPerSecond: GIB }, "1 GiB, 1 GiB/s"],
  [{ bytes: 0, bytesPerSecond: 0 }, "0 MiB"],
])("%o is %s", (download, text) => {
  expect(downloadText(download)).toBe(text);
});

test("no share and no time without a size or a speed", () => {
  expect(secondsLeft({ bytes: 5, totalBytes: 10, bytesPerSecond: 2 })).toBe(2.5);
  expect(secondsLeft({ bytes: 12, totalBytes: 10, bytesPerSecond: 2 })).toBe(0);
  expect(secondsLeft({ bytes: 5, totalBytes: 10 })).toBeUndefined();
  expect(secondsLeft({ bytes: 5, bytesPerSecond: 7 })).toBeUndefined();
  expect(shareOf({ bytes: 5, totalBytes: 10 })).toBe(0.5);
  expect(shareOf({ bytes: 5 })).toBeUndefined();
  expect(sumOfDownloads([])).toBeUndefined();
});
