import { expect, test } from "vitest";
import { layoutFor } from "../layout.ts";
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
