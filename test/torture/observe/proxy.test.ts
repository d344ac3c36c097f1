import { expect, test } from "vitest";
import { parseEndpoints } from "./proxy.ts";

const RULES = `table ip kube-proxy {
	chain service-ULMVA6XW-default/steady/tcp/http {
		ip daddr 10.0.0.57 tcp dport 8080 ip saddr != 10.0.0.0/8 jump mark-for-masquerade
		numgen random mod 2 vmap { 0 : goto endpoint-A2BCDEFG-default/steady/tcp/http__10.78.3.11/21000, 1 : goto endpoint-H3IJKLMN-default/steady/tcp/http__10.78.3.10/21002 }
	}
	chain endpoint-OLDOLDOL-default/steady/tcp/http__10.78.3.12/21000 {
		meta l4proto tcp dnat to 10.78.3.12:21000
	}
}`;

test("endpoints are those that a Service's chain goes to, not the chains that are left over", () => {
  expect(parseEndpoints(RULES)).toEqual(["10.78.3.10:21002", "10.78.3.11:21000"]);
  expect(parseEndpoints("")).toEqual([]);
});
