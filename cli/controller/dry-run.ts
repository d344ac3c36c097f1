/** `metalbridge controller --dry-run`: prints what the passes over services would do, in the form of `agent --dry-run`. */

import { marked } from "../../controller/frame/apply/apply-object.ts";
import { newApplyRun } from "../../controller/frame/apply/run.ts";
import { ownedRow } from "../../controller/frame/owned/kinds.ts";
import type { PathStep } from "../../controller/frame/owned/steps.ts";
import type { DryRun } from "../../controller/lead/lead.ts";
import { MANAGER_CONTROLLER } from "../../src/api/group.ts";
import { bodyOfApply } from "../../src/kube/apply/body.ts";
import { applyDiffers } from "../../src/kube/apply/differs.ts";
import { errorMessage } from "../../src/util/error-message.ts";

/** Answers each step as if the API server had taken it, so that later steps and other services build on it. */
export function createDryRun(print: (text: string) => void): DryRun {
  let phase = "";
  let lines: string[] = [];
  return {
    apply: async (steps) => {
      lines.push(...steps.filter(isChange).map(lineOf));
      const created = steps.flatMap((step) =>
        step.do === "create" && step.what === "replicas" ? [step.object] : [],
      );
      return { ...newApplyRun(new Set()), created };
    },
    writeStatus: async (_service, { phase: name, reason, message = "" }) => {
      phase = ` ${name} (${reason}): ${message}`;
    },
    onPassed: (key, failure) => {
      if (failure !== undefined) lines.push(`  cannot be planned: ${errorMessage(failure)}`);
      if (lines.length === 0) lines.push("  nothing to do");
      print([`${key}:${phase}`, ...lines].join("\n"));
      phase = "";
      lines = [];
    },
  };
}

/** An apply of what is stored already is not sent. */
function isChange(step: PathStep): boolean {
  if (step.do !== "apply" || step.current === undefined) return true;
  const body = bodyOfApply(ownedRow(step.what).kind, marked(step.object), { uid: step.current.metadata.uid });
  return applyDiffers(body, step.current, { manager: MANAGER_CONTROLLER });
}

function lineOf(step: PathStep): string {
  return `  ${step.do} ${objectOf(step)}: ${step.because}`;
}

function objectOf(step: PathStep): string {
  if ("pod" in step) return `Pod ${step.pod.metadata.name}`;
  if (!("what" in step)) return `InferenceService ${step.service.metadata.name}`;
  const on = step.what === "replicas" ? ` on ${step.object.spec.template.hostName}` : "";
  return `${ownedRow(step.what).kind.kind} ${step.object.metadata.name}${on}`;
}
