import { expect, test } from "vitest";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Lease } from "../../../src/kube/objects.ts";
import { readSign } from "./sign.ts";

const condition = (type: string, status: string, reason: string) => ({ type, status, reason });
const replica = (hostLostSeconds: number) => ({ spec: { hostLostSeconds } }) as unknown as InferenceReplica;
const lease = (spec?: Lease["spec"]): Lease => ({ metadata: { name: "a" }, ...(spec && { spec }) });
const NOTHING = { hasHolder: false, isLost: false };

test.each<[string, readonly object[] | undefined, Lease | undefined, readonly number[], object]>([
  ["nothing but the Host", undefined, undefined, [], NOTHING],
  ["a Lease without a spec", [], lease(), [], NOTHING],
  ["a Lease that was released", [], lease({ holderIdentity: "", renewTime: "t" }), [], NOTHING],
  ["a Lease that is held", [], lease({ holderIdentity: "mac" }), [], { ...NOTHING, hasHolder: true }],
  ["one replica", [], undefined, [90], { ...NOTHING, lostAfterMs: 90_000 }],
  ["replicas with several limits", [], undefined, [90, 60, 300], { ...NOTHING, lostAfterMs: 60_000 }],
  [
    "a Host whose agent was never seen",
    [condition("Reachable", "Unknown", "HostNeverSeen")],
    undefined,
    [],
    NOTHING,
  ],
  [
    "a Host that was lost",
    [condition("Reachable", "False", "HostUnreachable"), condition("Lost", "True", "HostLost")],
    undefined,
    [],
    { hasHolder: false, isLost: true, reachable: "False" },
  ],
  [
    "a Host in a mass expiry",
    [condition("Reachable", "Unknown", "MassExpiry")],
    undefined,
    [],
    { ...NOTHING, reachable: "Unknown" },
  ],
])("the sign of %s", (_, conditions, held, seconds, expected) => {
  const host = { metadata: { name: "a" }, status: conditions && { conditions } } as unknown as Host;
  const seen = { lastChangeMs: 5, absence: { fromMs: 1, toMs: 2 }, isDeclaredLost: false };
  expect(readSign(host, { lease: held, replicas: seconds.map(replica), ...seen })).toEqual({
    name: "a",
    reachable: undefined,
    lostAfterMs: undefined,
    ...seen,
    ...expected,
  });
});
