import { expect, test } from "vitest";
import { servedRequest } from "./served-kinds.ts";

const OURS = "/apis/metalbridge.dev/v1alpha1/namespaces/team-a/inferenceservices";

test.each([
  ["GET", "/version", false],
  ["GET", "/apis/metalbridge.dev/v1alpha1/hosts", false],
  ["GET", `${OURS}?limit=10&continue=abc`, false],
  ["POST", `${OURS}?dryRun=All&fieldManager=console&fieldValidation=Strict`, false],
  ["POST", OURS, true],
  ["PUT", `${OURS}/chat`, true],
  ["PATCH", `${OURS}/chat/scale`, true],
  ["PATCH", `${OURS}/chat?force=true`, true],
  ["DELETE", `${OURS}/chat?propagationPolicy=Foreground`, true],
  ["GET", "/api/v1/namespaces", false],
  ["GET", "/api/v1/namespaces/team-a", false],
  ["GET", "/api/v1/nodes/gpu-1", false],
  ["PATCH", "/api/v1/nodes/gpu-1", true],
  ["GET", "/api/v1/namespaces/team-a/pods/chat-0/log?container=engine&tailLines=100", false],
  ["GET", "/apis/events.k8s.io/v1/namespaces/team-a/events?fieldSelector=regarding.name%3Dchat", false],
  ["GET", "/apis/coordination.k8s.io/v1/namespaces/metalbridge-system/leases/metalbridge-controller", false],
  ["POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false],
])("%s %s is passed on unchanged", (method, url, isChange) => {
  const served = servedRequest(method, url);
  expect([served.path, served.isChange]).toEqual([url, isChange]);
});

test.each([
  ["/api/v1/namespaces/s/secrets", "?labelSelector=metalbridge.dev%2Fgateway-key"],
  ["/api/v1/secrets?labelSelector=x%3Dy", "?labelSelector=metalbridge.dev%2Fgateway-key%2Cx%3Dy"],
  ["/api/v1/namespaces/s/configmaps?limit=5", "?limit=5&labelSelector=metalbridge.dev%2Fgateway-usage"],
])("a list of %s has only objects with our label", (url, query) => {
  expect(servedRequest("GET", url).path).toBe(`${url.split("?")[0]}${query}`);
});

test.each([
  ["GET", "/api/v1/namespaces/s/secrets/admin-password"],
  ["PUT", "/api/v1/namespaces/s/secrets/key"],
  ["GET", "/api/v1/namespaces/s/configmaps/settings"],
  ["DELETE", "/api/v1/namespaces/s/secrets/key"],
  ["DELETE", OURS],
  ["POST", `${OURS}/chat`],
  ["PATCH", `${OURS}/chat/status`],
  ["POST", "/api/v1/namespaces/s/serviceaccounts/admin/token"],
  ["POST", "/api/v1/namespaces/s/pods/chat-0/exec"],
  ["GET", "/api/v1/namespaces/s/pods/chat-0/exec"],
  ["GET", "/api/v1/namespaces/s/services/x/proxy"],
  ["POST", "/api/v1/namespaces/s/pods"],
  ["DELETE", "/api/v1/nodes/gpu-1"],
  ["GET", "/apis/coordination.k8s.io/v1/leases"],
  ["DELETE", "/apis/coordination.k8s.io/v1/namespaces/metalbridge-system/leases/metalbridge-controller"],
  ["GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"],
  ["GET", "/apis/constructor/v1/constructor"],
  ["GET", "/apis/metalbridge.dev/v1alpha1/watch/hosts"],
  ["GET", "/apis/metalbridge.dev/v1alpha1/watch/namespaces/team-a"],
  ["GET", "/metrics"],
  ["GET", "/logs/"],
  ["GET", ""],
  ["GET", "/api/v1/namespaces/../secrets"],
  ["GET", "/api/v1/namespaces/s/pods/..%2fsecrets"],
  ["GET", "//api/v1/nodes"],
  ["POST", "/version"],
  ["OPTIONS", "/api/v1/nodes"],
])("%s %s is refused", (method, url) => {
  expect(() => servedRequest(method, url)).toThrow(expect.objectContaining({ code: "ConsoleKindNotServed" }));
});

test.each(["watch=true", "follow=true", "allowWatchBookmarks=1", "pretty=true"])(
  "the parameter %s is refused",
  (query) => {
    expect(() => servedRequest("GET", `/api/v1/nodes?${query}`)).toThrow(
      expect.objectContaining({ code: "ConsoleRequestInvalid" }),
    );
  },
);
