import { type ParseArgsConfig, parseArgs } from "node:util";

/** An expected failure of a release command: `remedy` says what to do. */
export class ReleaseError extends Error {
  readonly remedy: string;

  constructor(message: string, remedy: string, options: ErrorOptions = {}) {
    super(message, options);
    this.name = "ReleaseError";
    this.remedy = remedy;
  }
}

/** The arguments of the command line. Throws ReleaseError with the usage for those that `config` does not allow. */
export function readArguments<Config extends ParseArgsConfig>(config: Config, usage: string) {
  try {
    return parseArgs(config);
  } catch (cause) {
    throw new ReleaseError(cause instanceof Error ? cause.message : String(cause), usage, { cause });
  }
}

/** Runs a command's main function; an expected failure is printed with the command's name and without its stack. */
export async function runCommand(main: () => void | Promise<void>, name = "release"): Promise<void> {
  try {
    await main();
  } catch (error) {
    console.error(error instanceof ReleaseError ? `${name}: ${error.message}\n  → ${error.remedy}` : error);
    process.exitCode = 1;
  }
}
