/** Loaded before the program: on SIGUSR2 its wall clock is what the file says, in milliseconds beside the true one. */
import { readFileSync } from "node:fs";

const file = process.env.TORTURE_CLOCK_FILE;
const TrueDate = Date;
let offsetMs = 0;

class SteppedDate extends TrueDate {
  constructor(...args) {
    if (args.length === 0) super(TrueDate.now() + offsetMs);
    else super(...args);
  }
  static now() {
    return TrueDate.now() + offsetMs;
  }
}

function step() {
  const read = Number(readFileSync(file, "utf8"));
  offsetMs = Number.isFinite(read) ? read : 0;
}

if (file !== undefined) {
  try {
    step();
  } catch {
    // No step was ordered yet.
  }
  globalThis.Date = SteppedDate;
  process.on("SIGUSR2", step);
}
