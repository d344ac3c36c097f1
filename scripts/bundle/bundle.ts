/** The program as one bundle with lazily loaded chunks, because memory and start time are features. */
import path from "node:path";
import { type BuildOptions, type BuildResult, build, type Plugin } from "esbuild";
import { root } from "../project/root.ts";
import { leanHttp } from "./lean-http.ts";

/** Imports of `dist/config.js` that only unused calls need: `makeApiClient` and fetch dispatchers. */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  undici: ["Agent", "ProxyAgent"],
  "./gen/index.js": ["createConfiguration", "ServerConfiguration"],
  "./middleware.js": ["setHeaderMiddleware"],
};
const NAMESPACE = "left-out-of-client-node";

/** esbuild plugin that keeps only kubeconfigs and authentication of client-node, without its generated API classes and undici (16 MB resident, 60 ms). */
export const leanClientNode: Plugin = {
  name: "lean-client-node",
  setup: (build) => {
    build.onResolve({ filter: /^(undici|\.\/gen\/index\.js|\.\/middleware\.js)$/ }, ({ path, importer }) =>
      /client-node[\\/]dist[\\/]config\.js$/.test(importer) ? { path, namespace: NAMESPACE } : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path }) => ({
      contents: (LEFT_OUT[path] ?? []).map((name) => stub(name, path)).join("\n"),
    }));
  },
};

// A call throws the reason here, not a type error elsewhere.
function stub(name: string, path: string): string {
  const message = JSON.stringify(`${name} of ${path} is left out of this bundle`);
  return `export function ${name}() { throw new Error(${message}); }`;
}

/** Bundles only the English messages of zod: all languages would be a tenth of the agent's code. */
const leanZod: Plugin = {
  name: "lean-zod",
  setup: (build) => {
    build.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path: file }) => ({
      contents: 'export { default as en } from "./en.js";',
      resolveDir: path.dirname(file),
    }));
  },
};

/** Some dependencies are CommonJS and call require() for Node's own modules. */
export const REQUIRE =
  'import { createRequire as createRequireHere } from "node:module"; const require = createRequireHere(import.meta.url);';

/** Options of every bundle. */
export const BUNDLE_OPTIONS = {
  bundle: true,
  platform: "node",
  target: "node22.19",
  legalComments: "none",
  logLevel: "warning",
  // It finds its native part beside its own files.
  external: ["node-pty"],
  plugins: [leanClientNode, leanZod, leanHttp],
  // Sources stay in memory as text. Names are kept, for stacks.
  minifyWhitespace: true,
  minifySyntax: true,
} satisfies BuildOptions;

/** Rejects when the sources cannot be bundled; esbuild has printed why. */
export async function bundleInto(outdir: string): Promise<BuildResult<{ metafile: true }>> {
  const common: BuildOptions & { metafile: true } = {
    ...BUNDLE_OPTIONS,
    absWorkingDir: root,
    outdir,
    sourcemap: true,
    sourcesContent: false,
    metafile: true,
  };
  const [program] = await Promise.all([
    build({
      ...common,
      entryPoints: {
        metalbridge: "cli/main.ts",
        terminal: "agent/instances/process/terminal/main.ts",
        inventory: "cli/doctor/inventory.mjs",
      },
      outExtension: { ".js": ".mjs" },
      chunkNames: "chunks/[name]-[hash]",
      splitting: true,
      format: "esm",
      banner: { js: REQUIRE },
    }),
    // One process per host for good: Node's loader of ECMAScript modules takes 14 MB of it.
    build({
      ...common,
      entryPoints: { gate: "agent/gate/main.ts" },
      outExtension: { ".js": ".cjs" },
      format: "cjs",
      // The warning is about the launch of terminals, which the gate imports but never calls.
      logOverride: { "empty-import-meta": "silent" },
    }),
  ]);
  return program;
}
