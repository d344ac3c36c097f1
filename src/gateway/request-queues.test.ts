import { expect, test } from "vitest";
import { type RequestQueue, requestQueuesSchema, sumRequestQueues } from "./request-queues.ts";

const queue = (service: string, given: Partial<RequestQueue> = {}): RequestQueue => ({
  ...{ service, waiting: 0, longestWaitSeconds: 0, slots: { used: 0, total: 2 }, keys: [] },
  ...given,
});

test("queues of several gateways are summed by service and key, with the longest wait and the best position", () => {
  const one = queue("team/chat", {
    ...{ waiting: 3, longestWaitSeconds: 4, slots: { used: 2, total: 2 } },
    keys: [
      { key: "ada", waiting: 2, position: 1, longestWaitSeconds: 4 },
      { key: "bob", waiting: 1, position: 2, longestWaitSeconds: 1 },
    ],
  });
  const other = queue("team/chat", {
    ...{ waiting: 2, longestWaitSeconds: 9.5, slots: { used: 2, total: 2 } },
    keys: [
      { key: "bob", waiting: 1, position: 1, longestWaitSeconds: 9.5 },
      { key: "eve", waiting: 1, position: 2, longestWaitSeconds: 0.5 },
    ],
  });
  const sum = sumRequestQueues([{ queues: [one, queue("team/b")] }, { queues: [queue("team/a"), other] }]);
  expect(requestQueuesSchema.parse(sum)).toEqual({
    queues: [
      queue("team/a"),
      queue("team/b"),
      {
        ...{ service: "team/chat", waiting: 5, longestWaitSeconds: 9.5, slots: { used: 4, total: 4 } },
        keys: [
          { key: "ada", waiting: 2, position: 1, longestWaitSeconds: 4 },
          { key: "bob", waiting: 2, position: 1, longestWaitSeconds: 9.5 },
          { key: "eve", waiting: 1, position: 2, longestWaitSeconds: 0.5 },
        ],
      },
    ],
  });
  expect(sumRequestQueues([])).toEqual({ queues: [] });
});
