/** Manifests in examples/ and in the pages are what kubectl reads and the real API server accepts, strictly. */
import { beforeAll, expect, test } from "vitest";
import { API_VERSION } from "../../src/api/group.ts";
import { KubectlFailed } from "../bed/kubectl.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { documentedTexts, exampleTexts, objectsIn } from "./manifests.ts";

/** A namespace of users, which roles of an example are for. */
beforeAll(async () => {
  await sharedCluster().kubectl(["create", "namespace", "team-a"]);
});

/** The text as it is written: kubectl reads YAML 1.1, other parsers do not. */
function apply(input: string): Promise<string> {
  const args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-"];
  return sharedCluster().kubectl(args, { input });
}

test.for([...exampleTexts(), ...documentedTexts()])("$where: kubectl applies the text", async (one) => {
  const lines = (await apply(one.text)).trim().split("\n");
  const names = objectsIn(one).map(({ object }) => object.metadata.name);
  expect(lines.map((line) => line.split("/").at(-1))).toEqual(names);
});

test.for([["--server-side"], ["--validate=strict"], ["--validate=false"]])(
  "placement.on without quotes is refused by kubectl apply %s with what to write",
  async (how) => {
    const mixed = exampleTexts().find(({ where }) => where === "examples/linux/mixed-fleet.yaml");
    const input = mixed?.text.replace('"on": Auto', "on: Auto") ?? "";
    expect(input).toContain("    on: Auto");
    const refused = sharedCluster().kubectl(["apply", "--dry-run=server", ...how, "-f", "-"], { input });
    await expect(refused).rejects.toThrow(/"on" as true: write "on": Auto, with the quotes/);
  },
);

test("a field that does not exist is refused", async () => {
  const refused = apply(`
apiVersion: ${API_VERSION}
kind: Model
metadata: { name: odd, namespace: default }
spec: { source: hf://a/b, wings: 2 }
`);
  await expect(refused).rejects.toThrow(KubectlFailed);
  await expect(refused).rejects.toThrow(/wings/);
});
