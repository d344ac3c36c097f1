/**
 * An esbuild plugin: `node:http` is required, never imported. An import reads each export of a builtin module, and reading
 * `WebSocket` of this one loads Node's copy of undici (13 MB resident, 6 of them anonymous).
 */
import type { Plugin } from "esbuild";

const NAMESPACE = "required";

export const leanHttp: Plugin = {
  name: "lean-http",
  setup: (build) => {
    build.onResolve({ filter: /^(node:)?http$/ }, ({ namespace }) =>
      namespace === NAMESPACE
        ? { path: "node:http", external: true }
        : { path: "http", namespace: NAMESPACE },
    );
    build.onLoad({ filter: /^http$/, namespace: NAMESPACE }, () => ({
      contents: 'module.exports = require("node:http");',
    }));
  },
};
