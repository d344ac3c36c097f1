/** The catalog through the console, on a real API server. */
import { expect, test } from "vitest";
import type { CatalogRecord } from "../../fitness/catalog/record.ts";
import { createDensity } from "../../fitness/density/density.ts";
import { createFitIndex } from "../../fitness/density/fits.ts";
import { A100S, aHost, aNode, catalogRecords } from "../../fitness/density/fixtures/fleet.ts";
import { machineFromHost, machineFromNode } from "../../fitness/density/place.ts";
import { GROUP } from "../../src/api/group.ts";
import type { CatalogResponse } from "../../src/console/catalog.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { must } from "../../test/bed/must.ts";
import { createCatalog } from "./catalog.ts";
import { openConsoleRig, signIn } from "./testing/console-rig.ts";

const URL = "/console/catalog";

test("every reader gets the models, and how each fits its best host only with the right to density/catalog", async () => {
  await using rig = await openConsoleRig();
  const { namespace, client } = rig;
  const density = createDensity(createFitIndex(catalogRecords()));
  density.setPlace("Host", "small", machineFromHost(aHost("small", { memoryGib: 16 })));
  density.setPlace("Host", "large", machineFromHost(aHost("large", { memoryGib: 64 })));
  density.setPlace("Node", "gpu", machineFromNode(aNode("gpu", A100S)));
  const app = rig.start({ routes: [createCatalog(density, systemClock)] });
  expect((await app.inject({ url: URL, headers: { "x-metalbridge-console": "1" } })).statusCode).toBe(401);

  const stranger = await signIn(app, { token: await rig.tokenOf("stranger") });
  const without: CatalogResponse<CatalogRecord> = (await stranger.get(URL)).json();
  const names = catalogRecords().map(({ name }) => name);
  expect(without.models.map(({ name }) => name)).toEqual(names.sort());
  expect(without.fits).toEqual({});

  const token = await rig.tokenOf("reader");
  const metadata = { name: `${namespace}-catalog` };
  const rules = [{ apiGroups: [GROUP], resources: ["density/catalog"], verbs: ["get"] }];
  must(await client.create(CLUSTER_ROLES, { metadata, rules }));
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", ...metadata };
  const subjects = [{ kind: "ServiceAccount", name: "reader", namespace }];
  must(await client.create(CLUSTER_ROLE_BINDINGS, { metadata, roleRef, subjects }));
  const reader = await signIn(app, { token });
  const { fits }: CatalogResponse<CatalogRecord> = (await reader.get(URL)).json();
  expect(fits["Qwen/Qwen2.5-32B-Instruct"]).toMatchObject({ machine: "large" });
  expect(fits["Qwen/Qwen2.5-32B-Instruct"]?.tokensPerSecond).toBeGreaterThan(0);
  expect(fits["meta-llama/Llama-3.1-405B-Instruct"]?.level).toBe("too_tight");
});
