/** The watch of BackendRuntimes: what a leader waits for, and the message for services. */
import { expect, test } from "vitest";
import { REASON_KIND_NOT_INSTALLED } from "../../../src/kube/errors.ts";
import type { ApiFailure, FailureKind } from "../../../src/kube/types.ts";
import { type ReflectorOptions, UNWATCHED } from "../../../src/kube/watch/reflector.ts";
import { startBackendWatches } from "./backend-watches.ts";
import type { ChangeHandlers, StartWatch, WatchOptions } from "./contract.ts";

type Started = Omit<ReflectorOptions<never>, keyof WatchOptions>;

/** A watch that the test feeds. `passed` lists the BackendRuntimes whose services are passed again. */
function startedWatches() {
  const started = new Map<string, Started>();
  const passed: string[] = [];
  const start: StartWatch = (rest) => {
    started.set(rest.kind.plural, rest as unknown as Started);
    return { ...UNWATCHED, isSynced: () => false };
  };
  const groupings = {
    servicesOfBackend: { groups: () => ["engine"] },
  };
  const on = { onBackend: (name: string) => passed.push(name) } as unknown as ChangeHandlers;
  const watches = startBackendWatches(start, groupings, (notify) => notify(on));
  const watchOf = (plural: string) => started.get(plural) as Started;
  return {
    watches,
    passed,
    runtimes: watchOf("backendruntimes"),
    isKnown: () =>
      Promise.race([
        watches.whenBackendsKnown().then(() => true),
        new Promise((end) => setImmediate(end, false)),
      ]),
  };
}

const failure = (kind: FailureKind, reason = "", message = ""): ApiFailure => ({
  kind,
  reason,
  status: 0,
  message,
});
const MISSING = failure("unavailable", REASON_KIND_NOT_INSTALLED);

test("a leader waits for the list, and no longer if the cluster cannot give it", async () => {
  const { watches, runtimes, passed, isKnown } = startedWatches();
  runtimes.onFailure?.(failure("unreachable"));
  expect(await isKnown()).toBe(false);
  runtimes.onFailure?.(MISSING);
  expect(await isKnown()).toBe(true);
  expect(watches.backendsProblem()).toMatch(
    /^the cluster lacks the CRD backendruntimes\.metalbridge\.dev; .* metalbridge crds \| kubectl apply --server-side -f -\)$/,
  );
  expect(passed).toEqual([]);
  runtimes.onSynced?.();
  expect(watches.backendsProblem()).toBeUndefined();
  expect(passed).toEqual(["engine"]);
});

test("a missing permission is quoted with the command that grants it, and a later outage does not hide it", async () => {
  const { watches, runtimes, isKnown } = startedWatches();
  const text = 'backendruntimes.metalbridge.dev is forbidden: User "controller" cannot list';
  runtimes.onFailure?.(failure("forbidden", "Forbidden", text));
  expect(await isKnown()).toBe(true);
  runtimes.onFailure?.(failure("unreachable", "ECONNREFUSED"));
  expect(watches.backendsProblem()).toMatch(
    /^the controller lacks a permission: backendruntimes\.metalbridge\.dev is forbidden.*helm upgrade metalbridge.*kubectl apply --server-side -f examples\/install\)$/,
  );
});

test("a failure after the first list is no problem: the watch keeps what it has read", () => {
  const { watches, runtimes } = startedWatches();
  runtimes.onSynced?.();
  runtimes.onFailure?.(MISSING);
  expect(watches.backendsProblem()).toBeUndefined();
});
