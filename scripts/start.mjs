/** `npm start`: provides what is missing, then runs the whole system on this machine with `metalbridge demo`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ensureDependencies, ensureNode } from "./setup/dependencies.mjs";
import { handOver } from "./setup/hand-over.mjs";
import { ensureParts, root } from "./setup/parts.mjs";
import { createProgress, runMain } from "./setup/steps.mjs";

const program = join(root, "cli", "metalbridge.mjs");

async function start(args) {
  if (args.includes("--help") || args.includes("-h")) {
    // Help must not wait for a build of the control plane; it needs the packages alone.
    if (!existsSync(join(root, "node_modules"))) await ensureDependencies(root, createProgress());
    return await handOver(ensureNode(root), [program, "demo", "--help"]);
  }
  const parts = await ensureParts({ purpose: "start" });
  const env = { ...process.env, METALBRIDGE_LLAMA_SERVER: parts.llamaServer };
  return await handOver(parts.node, [program, "demo", ...args], { env });
}

await runMain(start);
