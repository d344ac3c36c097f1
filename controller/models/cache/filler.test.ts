import { expect, test } from "vitest";
import type { PersistentVolume, PersistentVolumeClaim } from "../../../src/kube/workload-objects.ts";
import { judgeFiller, type ObservedStorage } from "./filler.ts";

const claimOf = (...accessModes: string[]): PersistentVolumeClaim => ({
  metadata: { name: "c" },
  spec: { accessModes },
});
const unbound = (volumeBindingMode?: "Immediate" | "WaitForFirstConsumer"): ObservedStorage => ({
  at: "unbound",
  storageClass: { metadata: { name: "disks" }, provisioner: "disks.example.com", volumeBindingMode },
});
const bound = (spec: PersistentVolume["spec"]): ObservedStorage => ({
  at: "bound",
  volume: { metadata: { name: "v" }, spec },
});
const on = (...keys: string[]): PersistentVolume["spec"] => ({
  nodeAffinity: { required: { nodeSelectorTerms: keys.map((key) => ({ matchExpressions: [{ key }] })) } },
});
const once = claimOf("ReadWriteOnce");

test.each<[string, PersistentVolumeClaim, ObservedStorage, string | RegExp]>([
  ["many nodes", claimOf("ReadWriteMany"), unbound("WaitForFirstConsumer"), "Job"],
  ["one and many nodes", claimOf("ReadWriteOnce", "ReadWriteMany"), unbound(), "Job"],
  [
    "one pod",
    claimOf("ReadWriteOncePod"),
    unbound("Immediate"),
    /^access mode ReadWriteOncePod lets one pod/,
  ],
  ["no access mode", claimOf(), unbound(), /^access mode/],
  ["a class that waits for a pod", once, unbound("WaitForFirstConsumer"), /disks .*WaitForFirstConsumer/],
  ["a class that binds at once", once, unbound("Immediate"), "undecided"],
  ["a class without a binding mode, which binds at once", once, unbound(), "undecided"],
  ["a class that does not exist", once, { at: "unbound", storageClass: undefined }, "undecided"],
  ["a network disk", once, bound({}), "Job"],
  ["a disk of a zone", once, bound(on("topology.kubernetes.io/zone", "topology.gke.io/zone")), "Job"],
  ["a disk of a node", once, bound(on("kubernetes.io/hostname")), /nodes can mount volume v \(kubernetes.io/],
  [
    "one term of a node",
    once,
    bound(on("topology.kubernetes.io/zone", "topolvm.io/node")),
    /topolvm.io\/node/,
  ],
  [
    "a node by its field",
    once,
    bound({
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name" }] }] } },
    }),
    /metadata.name/,
  ],
  [
    "a folder of a node, without affinity",
    once,
    bound({ hostPath: { path: "/v" } }),
    /is a folder of a node/,
  ],
  ["a local volume", once, bound({ local: { path: "/v" } }), /is a folder of a node/],
  ["a volume that cannot be read", once, { at: "bound", volume: undefined }, /cannot be read/],
])("what fills a claim, by its access modes and storage: %s", (_, claim, storage, expected) => {
  const filler = judgeFiller(claim, storage);
  if (typeof expected === "string") expect(filler.by).toBe(expected);
  else expect(filler).toEqual({ by: "Pods", because: expect.stringMatching(expected) });
});
