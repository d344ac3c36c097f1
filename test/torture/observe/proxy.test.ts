import { expect, test } from "vitest";
import { parseEndpoints } from "./proxy.ts";

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
