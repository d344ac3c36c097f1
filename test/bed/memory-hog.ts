/** A program that takes memory: each line of its input is the number of MiB it shall hold. It answers "held N". */
import { createInterface } from "node:readline";

const MIB = 2 ** 20;
const held: Buffer[] = [];

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const wanted = Number(line);
    while (held.length > wanted) held.pop();
    // Written to, so that the pages are really there.
    while (held.length < wanted) held.push(Buffer.alloc(MIB, held.length % 255));
    process.stdout.write(`held ${held.length}\n`);
  })
  .on("close", () => process.exit());
