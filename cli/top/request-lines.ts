/** The queues of requests as lines of text. Pure. */

import type { ReadQueues } from "../../server/gateway-queues.ts";
import { alignColumns } from "../program/table.ts";

/** Services with requests, then the keys that wait. Empty without a gateway. */
export function requestLines({ queues, gateways, answered, problem }: ReadQueues): readonly string[] {
  const busy = queues.filter(({ waiting, slots }) => waiting + slots.used > 0);
  const waiting = queues.flatMap(({ service, keys }) => keys.map((key) => ({ service, ...key })));
  const missing = gateways === 0 ? "" : `${answered} of ${gateways} gateways answered: `;
  return [
    ...(problem === undefined ? [] : ["", `cannot read the queues of requests: ${missing}${problem}`]),
    ...table(
      ["REQUESTS", "SLOTS", "WAITING", "LONGEST WAIT"],
      busy.map((queue) => [
        ...[queue.service, `${queue.slots.used}/${queue.slots.total}`, String(queue.waiting)],
        waitText(queue.longestWaitSeconds),
      ]),
    ),
    ...table(
      ["WAITING", "KEY", "REQUESTS", "NEXT", "LONGEST WAIT"],
      waiting.map(({ service, key, waiting: requests, position, longestWaitSeconds }) => [
        ...[service, key, String(requests), String(position), waitText(longestWaitSeconds)],
      ]),
    ),
  ];
}

function table(titles: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  return rows.length === 0 ? [] : ["", ...alignColumns([titles, ...rows])];
}

function waitText(seconds: number): string {
  return seconds === 0 ? "-" : `${seconds.toFixed(seconds < 10 ? 1 : 0)}s`;
}
