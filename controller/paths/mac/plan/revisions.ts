/**
 * The ControllerRevisions of a service: the newest has the highest number, and old ones are kept for going
 * back. Pure.
 */

import type { Resolved } from "../../../../src/capacity/resolve.ts";
import { toRevisionData } from "../../../../src/capacity/revision-data.ts";
import { revisionHistoryLimit } from "../../../../src/capacity/template.ts";
import { guards } from "../../../service/corrections.ts";
import type { ServiceStep } from "../../../service/steps.ts";
import { desiredRevision } from "./desired.ts";
import type { ServiceObserved } from "./observed.ts";
import { hashOfRevision } from "./templates.ts";

/** What serves, and what served last, is kept whatever the limit says: a rollout that stops may need it. */
export function stepsOfRevisions(
  { service, revisions, replicas }: ServiceObserved,
  { template, model }: Resolved,
): ServiceStep[] {
  const newest = Math.max(0, ...revisions.map(({ revision }) => revision));
  const now = revisions.find((one) => hashOfRevision(one) === template.revision);
  const inUse = new Set([
    template.revision,
    service.status?.currentRevision,
    ...replicas.map(({ spec }) => spec.template.revision),
  ]);
  const steps: ServiceStep[] = [];
  if (now === undefined) {
    const object = desiredRevision(service, toRevisionData(service, template, model), newest + 1);
    steps.push({ do: "create", what: "revision", object });
  } else if (now.revision < newest) {
    const operations = [
      ...guards(now.metadata),
      { op: "add" as const, path: "/revision", value: newest + 1 },
    ];
    steps.push({ do: "patch", what: "revision", object: now, operations, because: "in use again" });
  }
  const old = revisions
    .filter((one) => !inUse.has(hashOfRevision(one)))
    .sort((a, b) => b.revision - a.revision);
  const because = "more old revisions than revisionHistoryLimit";
  for (const object of old.slice(revisionHistoryLimit(service.spec))) {
    steps.push({ do: "remove", what: "revision", object, because });
  }
  return steps;
}
