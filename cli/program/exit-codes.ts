/** What the exit code of `metalbridge` means; docs/cli.md has the same table for users. */
import { FETCH_EXIT } from "../../src/models/fetch-result.ts";

export const exitCodes = {
  /** Done. */
  ok: 0,
  /** An expected failure: `Code: what happened`, then what to do. */
  failed: 1,
  /** The command line, an environment variable or a configuration file is wrong; the message names the option. */
  usage: 2,
  /** `doctor` found warnings, or `doctor` or `selftest` could not read everything; nothing that stops a host from serving. */
  warnings: 3,
  /** A bug in Metalbridge: a stack trace follows. */
  bug: 70,
  /** `fetch`: the network or the source's server failed, and a later run may succeed. */
  retryable: FETCH_EXIT.retryable,
  /** Stopped by Ctrl-C. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
