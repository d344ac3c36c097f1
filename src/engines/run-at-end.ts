/** What is known of a run that has ended beside its exit and its log. */
export interface RunAtEnd {
  /** It answered a real request once, so it had taken its arguments and its model. */
  readonly wasReady: boolean;
  /** How the host's memory was when it ended; absent where there was enough, or nobody knows. */
  readonly memory?: "short" | "critical";
}
