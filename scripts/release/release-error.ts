/** An expected failure of a release command: `remedy` says what to do. */
export class ReleaseError extends Error {
  readonly remedy: string;

  constructor(message: string, remedy: string, options: ErrorOptions = {}) {
    super(message, options);
    this.name = "ReleaseError";
    this.remedy = remedy;
  }
}

/** Runs a command's main function; an expected failure is printed without its stack. */
export async function runCommand(main: () => void | Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    console.error(error instanceof ReleaseError ? `release: ${error.message}\n  → ${error.remedy}` : error);
    process.exitCode = 1;
  }
}
