import { expect, test } from "vitest";
import { GROUP } from "../api/group.ts";
import { deniedRight, missingRight } from "./missing-right.ts";

test.each([
  [
    'inferenceservices.metalbridge.dev "chat" is forbidden: User "ada" cannot patch resource "inferenceservices" in API group "metalbridge.dev" in the namespace "team-a"',
    "You may not patch inferenceservices in namespace team-a.",
    "Ask an administrator of the cluster to bind the ClusterRole edit to your account in namespace team-a.",
  ],
  [
    'hosts.metalbridge.dev is forbidden: User "ada" cannot list resource "hosts" in API group "metalbridge.dev" at the cluster scope',
    "You may not list hosts.",
    "Ask an administrator of the cluster to bind the ClusterRole metalbridge-viewer (examples/rbac/operator.yaml) to your account.",
  ],
  [
    'pods is forbidden: User "ada" cannot list resource "pods" in API group "" in the namespace "team-a": RBAC: clusterrole.rbac.authorization.k8s.io "x" not found',
    "You may not list pods in namespace team-a.",
    "Ask an administrator of the cluster to bind the ClusterRole view to your account in namespace team-a.",
  ],
  [
    'pods "chat-0" is forbidden: User "ada" cannot get resource "pods/log" in API group "" in the namespace "team-a"',
    "You may not get pods/log in namespace team-a.",
    "Ask an administrator of the cluster to bind the ClusterRole view to your account in namespace team-a.",
  ],
  [
    'secrets is forbidden: User "ada" cannot create resource "secrets" in API group "" in the namespace "metalbridge-system"',
    "You may not create secrets in namespace metalbridge-system.",
    "Ask an administrator of the cluster for a role with this right in namespace metalbridge-system.",
  ],
  [
    "ada may not get density/nodes of metalbridge.dev",
    "You may not get density/nodes.",
    "Ask an administrator of the cluster to bind the ClusterRole metalbridge-density-reader to your account.",
  ],
])("%s", (refusal, message, remedy) => {
  const denied = deniedRight(refusal);
  expect(denied && missingRight(denied)).toEqual({ code: "ApiForbidden", message, remedy });
});

test("a refusal by a policy is not a missing right", () => {
  const denied = 'hosts.metalbridge.dev "mac-1" is forbidden: ValidatingAdmissionPolicy denied request: …';
  expect(deniedRight(denied)).toBeUndefined();
});

test.each([
  [{ verb: "patch", group: GROUP, resource: "hosts" }, "metalbridge-operator"],
  [{ verb: "list", group: "", resource: "nodes" }, "metalbridge-viewer"],
  [{ verb: "patch", group: "", resource: "nodes" }, "a role with this right"],
  [{ verb: "create", group: GROUP, resource: "hosts" }, "a role with this right"],
])("%j is in %s", (question, role) => {
  expect(missingRight(question).remedy).toContain(role);
});
