/** `npm run torture -- --seed N --minutes M`: setup, then the torture on the right Node. */
import { runProgram } from "./setup/hand-over.mjs";

await runProgram("test", "torture", "main.ts");
