/** Manifests in examples/ and in the pages are what the real API server takes, strictly. */
import { beforeAll, expect, test } from "vitest";
import { API_VERSION } from "../../src/api/group.ts";
import { KubectlFailed } from "../bed/kubectl.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { documentedManifests, exampleManifests, type Found } from "./manifests.ts";

const found = [...exampleManifests(), ...documentedManifests()];

/** A namespace of users, which roles of an example are for. */
beforeAll(async () => {
  await sharedCluster().kubectl(["create", "namespace", "team-a"]);
});

function apply({ object }: Pick<Found, "object">): Promise<string> {
  const args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-"];
  return sharedCluster().kubectl(args, { input: JSON.stringify(object) });
}

test.for(found)("$where: the API server takes $object.kind $object.metadata.name", async (one) => {
  expect(await apply(one)).toContain(`/${one.object.metadata.name}`);
});

test("a field that does not exist is refused", async () => {
  const object = {
    apiVersion: API_VERSION,
    kind: "Model",
    metadata: { name: "odd", namespace: "default" },
    spec: { source: "hf://a/b", wings: 2 },
  };
  const refused = apply({ object });
  await expect(refused).rejects.toThrow(KubectlFailed);
  await expect(refused).rejects.toThrow(/wings/);
});
