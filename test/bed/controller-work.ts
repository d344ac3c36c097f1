/** What a controller has done so far, from its metrics. */

export interface ControllerWork {
  /** Requests to the API server, without watches and the leader's Lease. */
  readonly requests: number;
  /** Passes over the keys of the queues. */
  readonly passes: number;
}

export async function readWork(
  healthPort: number,
  queues: readonly string[] = ["services"],
): Promise<ControllerWork> {
  const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
  const sum = (start: string, counts: (line: string) => boolean) =>
    text
      .split("\n")
      .filter((line) => line.startsWith(start) && counts(line))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  // The leader's Lease is the only thing that is renewed with PUT.
  const isWork = (line: string) => !/verb="(WATCH|PUT)"/.test(line);
  return {
    requests: sum("metalbridge_controller_api_requests_total{", isWork),
    passes: sum("metalbridge_controller_reconcile_duration_seconds_count{", (line) =>
      queues.some((queue) => line.includes(`"${queue}"`)),
    ),
  };
}
