/** Manifests in examples/ and in the pages are what kubectl reads and the real API server accepts, strictly. */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, expect, test } from "vitest";
import { API_VERSION } from "../../src/api/group.ts";
import { KubectlFailed } from "../bed/kubectl.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { documentedTexts, exampleTexts, objectsIn } from "./manifests.ts";

/** A namespace of users, which roles of an example are for. */
beforeAll(async () => {
  await sharedCluster().objects.createNamespace("team-a");
});

const APPLY = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "name"];

/** One kubectl for all texts as they are written: it reads YAML 1.1, other parsers do not. An error names the file. */
test("kubectl applies every text", async () => {
  await using folder = await temporaryFolder();
  const texts = [...exampleTexts(), ...documentedTexts()];
  const files = texts.map(({ where, text }) => {
    const file = path.join(folder.path, `${where.replaceAll("/", "_")}.yaml`);
    writeFileSync(file, text);
    return file;
  });
  const taken = await sharedCluster().kubectl([...APPLY, ...files.flatMap((file) => ["-f", file])]);
  const names = texts.flatMap(objectsIn).map(({ object }) => object.metadata.name);
  expect(names.length).toBeGreaterThan(100);
  expect(
    taken
      .trim()
      .split("\n")
      .map((line) => line.split("/").at(-1)),
  ).toEqual(names);
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
  const input = `
apiVersion: ${API_VERSION}
kind: Model
metadata: { name: odd, namespace: default }
spec: { source: hf://a/b, wings: 2 }
`;
  const refused = sharedCluster().kubectl([...APPLY, "-f", "-"], { input });
  await expect(refused).rejects.toThrow(KubectlFailed);
  await expect(refused).rejects.toThrow(/wings/);
});
