/** An esbuild plugin: of client-node only kubeconfigs and authentication, without its generated API classes and undici (16 MB resident, 60 ms). */
import type { Plugin } from "esbuild";

/** What `dist/config.js` takes from them is used only by calls that we never make: `makeApiClient` and fetch dispatchers. */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  undici: ["Agent", "ProxyAgent"],
  "./gen/index.js": ["createConfiguration", "ServerConfiguration"],
  "./middleware.js": ["setHeaderMiddleware"],
};
const NAMESPACE = "left-out-of-client-node";

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

// Called after all, it says what is wrong instead of failing somewhere else.
function stub(name: string, path: string): string {
  const message = JSON.stringify(`${name} of ${path} is left out of this bundle`);
  return `export function ${name}() { throw new Error(${message}); }`;
}
