import { expect, test } from "vitest";
import { parseAudit, parseEndpoints } from "./proxy.ts";

const RULES = `table ip kube-proxy {
	map service-ips {
		elements = { 10.0.21.32 . tcp . 8080 : goto service-YXY3C4IV-default/brief/tcp/http,
			     10.0.88.238 . tcp . 8080 : goto service-S2BGXTDR-default/steady/tcp/http }
	}

	chain service-S2BGXTDR-default/steady/tcp/http {
		meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.78.65.110 . 21000, 1 : 10.78.65.11 . 21002 }
	}

	chain service-YXY3C4IV-default/brief/tcp/http {
		meta l4proto tcp dnat ip to numgen random mod 1 map { 0 : 10.78.65.11 . 21001 }
	}
}`;

test("endpoints are what the chains of Services rewrite addresses to", () => {
  expect(parseEndpoints(RULES)).toEqual(["10.78.65.110:21000", "10.78.65.11:21001", "10.78.65.11:21002"]);
  expect(parseEndpoints("")).toEqual([]);
});

test("the audit log says when a watch of kube-proxy begins and ends, and of no other client", () => {
  const line = (stage: string, more: object = {}) =>
    JSON.stringify({
      kind: "Event",
      apiVersion: "audit.k8s.io/v1",
      level: "Metadata",
      stage,
      verb: "watch",
      userAgent: "kube-proxy/v1.36.3 (linux/amd64) kubernetes/0000000",
      objectRef: { resource: "endpointslices", apiGroup: "discovery.k8s.io", apiVersion: "v1" },
      sourceIPs: ["10.78.65.13"],
      stageTimestamp: "1970-01-01T00:00:07.250000Z",
      ...more,
    });
  const watch = { at: 7_250, address: "10.78.65.13", resource: "endpointslices" };
  expect(parseAudit(line("ResponseStarted"))).toEqual({ ...watch, isOpen: true });
  expect(parseAudit(line("ResponseComplete"))).toEqual({ ...watch, isOpen: false });
  expect(parseAudit(line("RequestReceived"))).toBeUndefined();
  expect(parseAudit(line("ResponseStarted", { userAgent: "metalbridge-agent/0.1.0" }))).toBeUndefined();
  expect(parseAudit("")).toBeUndefined();
});
