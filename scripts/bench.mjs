/** `npm run bench`: setup, then the bench on the right Node. */
import { join } from "node:path";
import { handOver } from "./setup/hand-over.mjs";
import { describeFailure } from "./setup/steps.mjs";
import { ensureParts, root } from "./setup.mjs";

async function bench(args) {
  const parts = await ensureParts({ purpose: "test" });
  const env = { ...process.env, METALBRIDGE_LLAMA_SERVER: parts.llamaServer };
  return await handOver(parts.node, ["--import", "tsx", join(root, "scripts", "bench", "main.ts"), ...args], {
    env,
  });
}

bench(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error) => {
    console.error(describeFailure(error));
    process.exitCode = 1;
  },
);
