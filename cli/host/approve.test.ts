/** Which machine an administrator means: whoever asks to join chooses a name, and must not be approved in another's place. */
import { expect, test } from "vitest";
import type { HostJoinRequest } from "../../src/api/host-join-request.ts";
import { renderApproval, requestOf } from "./approve.ts";

const asking = (key: string, hostName: string): HostJoinRequest => ({
  metadata: { name: key.padEnd(64, "0") },
  spec: { hostName, group: "lab", addresses: ["10.0.0.1"] },
});
const meant = asking("feedfeedfeedfeed", "mac-1");

test("a machine is found by its name, and by the digits of its key that it shows", () => {
  const waiting = [asking("ab".repeat(8), "mac-2"), meant];
  expect(requestOf(waiting, "mac-1")).toBe(meant);
  expect(requestOf(waiting, "feedfeedfeedfeed")).toBe(meant);
  expect(() => requestOf(waiting, "feedfeed")).toThrow(
    expect.objectContaining({ code: "JoinRequestNotFound" }),
  );
});

test.each([
  ["the name of the one that is meant", "mac-1", "mac-1"],
  ["a name like its key", "feedfeedfeedfeed", "feedfeedfeedfeed"],
])("one that asks under %s is not approved in its place, nor proposed", (_, name, asked) => {
  const other = asking("00".repeat(8), name);
  const error = (() => {
    try {
      return requestOf([other, meant], asked);
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toMatchObject({
    code: "NameAmbiguous",
    message: expect.stringContaining("feedfeedfeedfeed"),
    remedy: { command: "metalbridge host approve <key>" },
  });
});

test("an approval is reported as what the controller made of it", () => {
  const verdict = (status?: HostJoinRequest["status"]) => renderApproval({ ...meant, status });
  const who = "host mac-1 (key feedfeedfeedfeed)";
  expect(verdict({ phase: "Admitted" })).toBe(`${who} is approved: the machine is joining`);
  expect(verdict({ phase: "Rejected", reason: "JoinLimitReached", message: "all 3 have joined" })).toBe(
    `${who} is refused: JoinLimitReached: all 3 have joined`,
  );
  for (const status of [undefined, { phase: "Pending" } as const])
    expect(verdict(status)).toBe(
      `${who} is approved, but the controller has not answered yet: metalbridge host list`,
    );
});
