import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, it } from "vitest";
import { leanClientNode } from "./bundle/bundle.ts";

it("a bundle of the API client holds no generated API classes and no undici", async () => {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ["src/kube/client/connect.ts"],
    bundle: true,
    write: false,
    minify: true,
    outdir: "dist",
    format: "esm",
    platform: "node",
    metafile: true,
    plugins: [leanClientNode],
  });
  const [output] = Object.values(metafile.outputs);
  const inputs = Object.keys(output?.inputs ?? {});
  expect(inputs.some((name) => name.includes("client-node/dist/config.js"))).toBe(true);
  expect(inputs.filter((name) => /client-node\/dist\/gen|node_modules\/undici/.test(name))).toEqual([]);
  expect(output?.bytes ?? Number.POSITIVE_INFINITY).toBeLessThan(450_000);
});
