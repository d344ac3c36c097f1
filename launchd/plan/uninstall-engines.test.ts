import { dirname } from "node:path/posix";
import { expect, test } from "vitest";
import { layoutFor, placesBelow } from "../layout.ts";
import type { Observed } from "./observed.ts";
import { planUninstall } from "./uninstall.ts";

const layout = layoutFor({ platform: "darwin", scope: "system", root: "", home: "/Users/me", uid: 501 });
const observed: Omit<Observed, "engines"> = {
  ...{ account: "missing", versions: [], partials: [], proven: [], current: undefined, previous: undefined },
  ...{ entries: [], job: { at: "absent", isDisabled: false }, agent: { at: "none" } },
};

test.each<[number | undefined, readonly object[]]>([
  [undefined, []],
  [0, []],
  [1, [{ do: "stop engines", count: 1 }]],
  [3, [{ do: "stop engines", count: 3 }]],
])("uninstall stops engines where there are any: %s", (engines, expected) => {
  const steps = planUninstall({
    ...{ layout, purge: false, stateEntries: undefined },
    observed: { ...observed, engines },
  });
  expect(steps.filter((step) => step.do === "stop engines")).toEqual(expected);
});

test("a machine on which everything is gone has nothing to stop", () => {
  const gone = { ...observed, engines: 0 };
  const steps = planUninstall({ layout, observed: gone, purge: false, stateEntries: undefined });
  expect(steps).toEqual([
    ...[layout.definition, layout.command, layout.configFile].map((path) => ({ do: "remove", path })),
    ...(layout.crashLog === undefined ? [] : [{ do: "remove", path: layout.crashLog }]),
    ...[layout.configFile, ...(layout.crashLog === undefined ? [] : [layout.crashLog])].map((path) => ({
      do: "remove if empty",
      path: dirname(path),
    })),
    { do: "remove", path: placesBelow(layout.prefix).versions },
    { do: "remove", path: layout.prefix },
  ]);
});

test("the model store and its account stay, unless they are purged", () => {
  const present = { ...observed, account: "present", engines: 0 } as const;
  const left = (purge: boolean, stateEntries: readonly string[]) =>
    planUninstall({ layout, observed: present, purge, stateEntries }).flatMap((step) =>
      step.do === "remove account" || ("path" in step && step.path.startsWith(layout.stateDir)) ? [step] : [],
    );
  const account = { do: "remove account", name: layout.account };
  expect(left(false, ["models", "engines"])).toEqual([{ do: "remove", path: `${layout.stateDir}/engines` }]);
  expect(left(true, ["models"])).toEqual([{ do: "remove", path: layout.stateDir }, account]);
  expect(left(false, ["engines"])).toEqual([{ do: "remove", path: layout.stateDir }, account]);
});
