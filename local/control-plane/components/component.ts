/** The description of one program for the supervisor. */
export interface Component {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly logFile: string;
  /** Time between TERM and KILL. */
  readonly graceMs: number;
  /** The same after this process was killed, when no client waits for responses. */
  readonly orphanGraceMs: number;
}
