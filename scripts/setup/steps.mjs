/** Progress on stderr, and failures that say what is missing and how to get it. */

/** An expected failure of setup: `how` lists ways to get what is missing, best first. */
export class SetupError extends Error {
  constructor(message, how = [], options = {}) {
    super(message, options);
    this.name = "SetupError";
    this.how = how;
  }
}

const HEARTBEAT_MS = 15_000;

/** Prints where each step stands; quiet about steps that had nothing to do unless `verbose`. */
export function createProgress({
  write = (text) => process.stderr.write(text),
  verbose = false,
  everyMs = HEARTBEAT_MS,
} = {}) {
  const running = new Map();
  const seconds = (name) => `${((Date.now() - running.get(name)) / 1000).toFixed(1)} s`;
  let heartbeat;
  const beat = () => {
    const steps = [...running.keys()].map((name) => `${name} ${seconds(name)}`);
    write(`    still working: ${steps.join(", ")}\n`);
  };
  return {
    note: (text) => write(`  · ${text}\n`),
    cached: (name, detail) => {
      if (verbose) write(`  ✓ ${name.padEnd(24)} ${detail}\n`);
    },
    /** Runs `work` with a line before, and a line after. Steps that run side by side share a sign of life every 15 s. */
    async during(name, detail, work) {
      write(`  … ${name.padEnd(24)} ${detail}\n`);
      if (running.size === 0) heartbeat = setInterval(beat, everyMs);
      running.set(name, Date.now());
      try {
        const result = await work();
        write(`  ✓ ${name.padEnd(24)} ${seconds(name)}\n`);
        return result;
      } finally {
        running.delete(name);
        if (running.size === 0) clearInterval(heartbeat);
      }
    },
  };
}

/** Runs a command's main function, which resolves with the exit code if it is not 0. */
export async function runMain(main) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (error) {
    console.error(describeFailure(error));
    process.exitCode = 1;
  }
}

/** What to print for a failure, and nothing else. */
export function describeFailure(error) {
  if (!(error instanceof SetupError)) return `setup failed: ${error?.stack ?? error}`;
  return [`setup: ${error.message}`, ...error.how.map((way) => `  → ${way}`)].join("\n");
}
