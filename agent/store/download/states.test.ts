import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { permanent, transient } from "../../../src/hub/failure.ts";
import { type DownloadEvent, type DownloadState, nextState } from "./states.ts";

const ATTEMPTS = 3;
const content = { sha256: "ab", sizeBytes: 4, validator: {} };
const received = { sizeBytes: 4, validator: {}, isOneResponse: true };
const broke = transient("SourceTruncated", "broke off");
const error = new MetalbridgeError("DiskFull", "full");

const states: { readonly [At in DownloadState["at"]]: DownloadState } = {
  queued: { at: "queued" },
  peers: { at: "peers" },
  source: { at: "source", failures: 1 },
  backoff: { at: "backoff", failures: 1, failure: broke },
  verifying: { at: "verifying", failures: 1, received, from: "source" },
  exhausted: { at: "exhausted", error },
  publishing: { at: "publishing", content, prefixes: [] },
  done: { at: "done", content },
  failed: { at: "failed", error },
};

test.each<[DownloadState["at"], DownloadEvent, DownloadState["at"]]>([
  ["queued", { on: "started", hasPeers: true }, "peers"],
  ["queued", { on: "started", hasPeers: false }, "source"],
  ["peers", { on: "received", received, from: "peers" }, "verifying"],
  ["peers", { on: "useSource" }, "source"],
  ["source", { on: "received", received, from: "source" }, "verifying"],
  ["source", { on: "usePeers" }, "peers"],
  ["source", { on: "failed", error: broke }, "backoff"],
  ["source", { on: "failed", error: permanent("SourceNotFound", "gone") }, "exhausted"],
  ["source", { on: "failed", error }, "exhausted"],
  ["backoff", { on: "elapsed" }, "source"],
  ["backoff", { on: "usePeers" }, "peers"],
  ["verifying", { on: "verified", content, prefixes: [] }, "publishing"],
  ["verifying", { on: "usePeers" }, "peers"],
  ["verifying", { on: "failed", error: broke }, "backoff"],
  ["exhausted", { on: "usePeers" }, "peers"],
  ["exhausted", { on: "ended" }, "failed"],
  ["publishing", { on: "published" }, "done"],
])("a download that is %s and has %o is %s next, as the README says", async (at, event, next) => {
  expect(nextState(states[at], event, ATTEMPTS).at).toBe(next);
  const readme = await readFile(join(import.meta.dirname, "../README.md"), "utf8");
  const row = readme.split("\n").find((line) => line.startsWith(`| ${at} `)) ?? "";
  expect(row).toMatch(new RegExp(`${event.on}: [^;]*\\b${next}\\b`));
});

test("consecutive failures end a download, and progress resets the count", () => {
  let state: DownloadState = { at: "source", failures: 0 };
  const fail = (gainedBytes: number): DownloadState => {
    const failure = transient("SourceTruncated", "broke off");
    failure.gainedBytes = gainedBytes;
    state = nextState(state, { on: "failed", error: failure }, ATTEMPTS);
    const after = state;
    if (state.at === "backoff") state = nextState(state, { on: "elapsed" }, ATTEMPTS);
    return after;
  };
  expect([fail(0), fail(0), fail(1 << 20), fail(0)]).toMatchObject([
    { at: "backoff", failures: 1 },
    { at: "backoff", failures: 2 },
    { at: "backoff", failures: 1 },
    { at: "backoff", failures: 2 },
  ]);
  expect(fail((1 << 20) - 1)).toMatchObject({
    at: "exhausted",
    error: { code: "SourceTruncated", message: "broke off (3 attempts in a row)" },
  });
});

test("failures of the source before peers served data do not count afterwards", () => {
  const peers = nextState({ at: "source", failures: 2 }, { on: "usePeers" }, ATTEMPTS);
  expect(nextState(peers, { on: "useSource" }, ATTEMPTS)).toEqual({ at: "source", failures: 0 });
});

test("an event that is not valid in the current state is a bug", () => {
  expect(() => nextState(states.queued, { on: "published" }, ATTEMPTS)).toThrow(
    /event published is invalid in state queued/,
  );
});
