/** `npm run bench`: setup, then the bench on the right Node. */
import { runProgram } from "./setup/hand-over.mjs";

await runProgram("scripts", "bench", "main.ts");
