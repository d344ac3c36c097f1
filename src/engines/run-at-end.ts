/** What is known of a finished run beside its exit and its log. */
export interface RunAtEnd {
  /** It answered a real request once, so it had taken its arguments and its model. */
  readonly wasReady: boolean;
  /** Memory level of the host when it exited; absent if normal or unknown. */
  readonly memory?: "short" | "critical";
}
