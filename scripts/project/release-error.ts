import { type ParseArgsConfig, parseArgs } from "node:util";

/** An expected failure of a release command: `remedy` says what to do. */
export class ReleaseError extends Error {
  readonly remedy: string;
  readonly exitCode: number = 1;

  constructor(message: string, remedy: string, options: ErrorOptions = {}) {
    super(message, options);
    this.name = "ReleaseError";
    this.remedy = remedy;
  }
}

/** The command line cannot be read: `remedy` is the usage. */
export class UsageError extends ReleaseError {
  override readonly exitCode = 2;
}

/** The arguments of the command line. Throws UsageError for those that `config` does not allow. */
export function readArguments<Config extends ParseArgsConfig>(config: Config, usage: string) {
  try {
    return parseArgs(config);
  } catch (cause) {
    throw new UsageError(cause instanceof Error ? cause.message : String(cause), usage, { cause });
  }
}

/** Runs a command's main function; an expected failure is printed with the command's name and without its stack. */
export async function runCommand(main: () => void | Promise<void>, name = "release"): Promise<void> {
  try {
    await main();
  } catch (error) {
    console.error(error instanceof ReleaseError ? `${name}: ${error.message}\n  → ${error.remedy}` : error);
    process.exitCode = error instanceof ReleaseError ? error.exitCode : 1;
  }
}
