/** `npm run torture -- --seed N --minutes M`: setup, then the torture on the right Node. */
import { join } from "node:path";
import { handOver } from "./setup/hand-over.mjs";
import { describeFailure } from "./setup/steps.mjs";
import { ensureParts, root } from "./setup.mjs";

async function torture(args) {
  const parts = await ensureParts({ purpose: "test" });
  const env = { ...process.env, METALBRIDGE_LLAMA_SERVER: parts.llamaServer };
  return await handOver(parts.node, ["--import", "tsx", join(root, "test", "torture", "main.ts"), ...args], {
    env,
  });
}

torture(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error) => {
    console.error(describeFailure(error));
    process.exitCode = 1;
  },
);
