/** The installed role of the controller allows what it does with each kind of a service. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { hasNameOf, ownedKinds, ownedRow } from "./kinds.ts";

interface Role {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules: readonly Record<"apiGroups" | "resources" | "verbs", readonly string[]>[];
}

const manifests = readFileSync(
  new URL("../../../examples/install/metalbridge.yaml", import.meta.url),
  "utf8",
);
const roles = parseAllDocuments(manifests).map((document) => document.toJS() as Role);
const rules = roles
  .filter(({ kind, metadata }) => kind === "ClusterRole" && metadata.name === "metalbridge-controller")
  .flatMap((role) => role.rules);

test.each(ownedKinds)("%s: the controller may list, watch, create and delete them", (what) => {
  const { group, plural } = ownedRow(what).kind;
  const verbs = rules
    .filter(({ apiGroups, resources }) => apiGroups.includes(group) && resources.includes(plural))
    .flatMap((rule) => rule.verbs);
  expect(verbs).toEqual(expect.arrayContaining(["get", "list", "watch", "create", "patch", "delete"]));
});

test("a ResourceClaimTemplate is a service's only by its name, because clients copy labels", () => {
  const named = (name: string) => hasNameOf("chat", "claimTemplates", { metadata: { name } });
  expect(["chat-flavors-3f9c", "chat", "chat-copy", "other-flavors-3f9c"].map(named)).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
