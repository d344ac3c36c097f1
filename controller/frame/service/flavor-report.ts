/** Reports the flavor of a service: in its status, as condition FlavorChosen, and as an Event when it changes. Pure. */
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import type { FlavorStatus } from "../../../src/api/flavors.ts";
import type { InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import { truncate } from "../../../src/util/text.ts";
import type { ReportedEvent } from "../watches/events.ts";
import type { LiveService } from "./path.ts";

export interface ChosenFlavor extends Partial<Recheck> {
  /** The service with the settings of its flavor. The same service if the Model has no flavors. */
  readonly live: LiveService;
  readonly report?: { readonly status: FlavorStatus; readonly condition: ConditionUpdate };
}

export interface FlavorChooser {
  readonly choose: (live: LiveService) => ChosenFlavor;
  /** The service with its last flavor, before placement can judge any. */
  readonly last: (live: LiveService) => LiveService;
  /** Services that would use another flavor if it had room. */
  readonly waiting: () => Iterable<string>;
  readonly forget: (key: string) => void;
}

const MAX_MESSAGE = 1_024;

export function flavorStatus(report: ChosenFlavor["report"]): Pick<InferenceServiceStatus, "flavor"> {
  if (report === undefined) return {};
  const { name, reason = "", skipped, available } = report.status;
  return {
    flavor: {
      name,
      reason: truncate(reason, MAX_MESSAGE),
      skipped: skipped?.map((one) => ({ ...one, message: truncate(one.message ?? "", MAX_MESSAGE) })),
      available,
    },
  };
}

/** Reports the flavor that kube-scheduler chose. The pass that reads the allocation began with the first flavor of the claim. */
export function withAllocation(
  report: ChosenFlavor["report"],
  { flavor }: LiveService,
  allocated: string | undefined,
): ChosenFlavor["report"] {
  if (flavor?.on !== "Pods" || allocated === undefined || report?.status.name === allocated) return report;
  const { flavors } = flavor.stage;
  const skipped = flavors
    .slice(
      0,
      flavors.findIndex(({ name }) => name === allocated),
    )
    .map(({ name, deviceClass = "" }) => ({
      name,
      reason: "FlavorFull" as const,
      message: withoutFreeDevices(deviceClass),
    }));
  const reason = "kube-scheduler allocated its devices";
  const others = skipped.map(({ name, message }) => `; not used: ${name}: ${message}`).join("");
  const message = `${allocated}: ${reason}${others}`;
  const verdict = skipped.length === 0 ? "FlavorPreferred" : "FlavorFallback";
  return {
    status: { name: allocated, reason, skipped: skipped.length === 0 ? undefined : skipped },
    condition: { type: "FlavorChosen", status: "True", reason: verdict, message },
  };
}

/** Why kube-scheduler did not choose a flavor of a claim. */
export function withoutFreeDevices(deviceClass: string): string {
  return `kube-scheduler found no free devices of ${deviceClass} for a pod`;
}

/** Undefined if the flavor is the same as before. */
export function flavorEvent(
  before: InferenceServiceStatus | undefined,
  after: InferenceServiceStatus,
): ReportedEvent | undefined {
  if (after.flavor === undefined || before?.flavor?.name === after.flavor.name) return undefined;
  const chosen = after.conditions?.find(({ type }) => type === "FlavorChosen");
  if (chosen === undefined) return undefined;
  const type = chosen.status === "True" ? "Normal" : "Warning";
  return { type, reason: chosen.reason, action: "ChooseFlavor", note: chosen.message };
}
