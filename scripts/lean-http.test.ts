import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { build } from "esbuild";
import { expect, it } from "vitest";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { BUNDLE_OPTIONS, REQUIRE } from "./bundle/bundle.ts";

it("a bundle that imports node:http does not load undici", async () => {
  await using folder = await temporaryFolder();
  const entry = path.join(folder.path, "entry.ts");
  writeFileSync(
    entry,
    `import http, { createServer } from "node:http";
    const loaded = process.moduleLoadList.filter((name: string) => name.includes("undici"));
    console.log(JSON.stringify({ loaded, isHttp: http.createServer === createServer }));`,
  );
  const outfile = path.join(folder.path, "bundle.mjs");
  await build({ ...BUNDLE_OPTIONS, entryPoints: [entry], outfile, format: "esm", banner: { js: REQUIRE } });
  const said = JSON.parse(execFileSync(process.execPath, [outfile], { encoding: "utf8" }));
  expect(said).toEqual({ loaded: [], isHttp: true });
});
