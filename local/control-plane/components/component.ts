/** What the runner needs to know of one program: data only, so that builders can be tested without running anything. */

export interface Component {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly logFile: string;
  /** How long it may take to exit after TERM before it is killed. */
  readonly graceMs: number;
  /** The same if we were killed: no client waits for its answers any more. */
  readonly orphanGraceMs: number;
}
