/** Where services run on hosts only, the controller works without any right to what pods need. */
import { expect, test } from "vitest";
import { inferenceService, startBench } from "../test/controller/bench.ts";
import { keepLines, type LogLine } from "../test/fixtures/log-lines.ts";

const OF_PODS =
  /deployments|poddisruptionbudgets|networkpolicies|podmonitors|pods|nodes|persistentvolumeclaims|jobs|storageclasses/;

interface Role {
  readonly rules: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
}

test("with permissions for hosts only, a service on a host runs and is deleted, and a service for pods reports why it does not run", async () => {
  const lines: LogLine[] = [];
  await using bench = await startBench({ log: keepLines(lines), flags: { hostsOnly: true } });
  const role: Role = await bench.objects.get("", "clusterrole/metalbridge-controller");
  const rules = role.rules.flatMap((rule) => {
    const resources = rule.resources.filter((resource) => !OF_PODS.test(resource));
    const isEventsOfOthers = resources.includes("events") && rule.verbs.includes("list");
    return resources.length === 0 || isEventsOfOthers ? [] : [{ ...rule, resources }];
  });
  expect(rules.length).toBeLessThan(role.rules.length);
  await bench.objects.patch("", "clusterrole/metalbridge-controller", { rules });
  await bench.restartController();

  await bench.agent("mac-1");
  await bench.model("default", "tiny");
  for (const [name, on] of [
    ["on-host", "Hosts"],
    ["on-either", "Auto"],
    ["in-pods", "Pods"],
  ] as const)
    await bench.apply(inferenceService("default", name, { placement: { on } }));
  for (const name of ["on-host", "on-either"])
    await bench.serviceUntil("default", name, ({ status }) =>
      expect(status).toMatchObject({ phase: "Ready", on: "Hosts" }),
    );
  await bench.serviceUntil("default", "in-pods", ({ status }) =>
    expect(status).toMatchObject({ phase: "Failed", reason: "PodsDisabled" }),
  );
  await bench.objects.remove("default", "isvc");
  expect(lines.filter(({ data, message }) => `${data.code} ${message}`.includes("ApiForbidden"))).toEqual([]);
});
