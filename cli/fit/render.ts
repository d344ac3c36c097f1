/** The text of `metalbridge fit`. Pure. */

import type { HostFit } from "../../src/capacity/fit/fit.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { claimParts } from "../program/claim-parts.ts";
import { alignColumns } from "../program/table.ts";
import type { FitAnswer } from "./answer.ts";
import { type ExplainedMachine, renderExplained } from "./explain.ts";

export function renderFit(answer: FitAnswer): string {
  const {
    model,
    runtime,
    priority,
    contextSize,
    parallelSlots,
    choice,
    missing,
    hosts,
    waitingBefore,
    notes,
  } = answer;
  const fitting = hosts.filter(({ fits }) => fits === true).length;
  const quantization = model.quantization === undefined ? "" : ` (${model.quantization})`;
  const lines = [
    `${model.name}${quantization} on ${runtime}, ${contextSize} tokens in ${parallelSlots} ${parallelSlots === 1 ? "slot" : "slots"}, priority ${priority}`,
    claimLine(answer),
    ...notes.map((note) => `note: ${note}`),
    "",
    fitsLine(answer, fitting),
    ...(missing === undefined ? [] : [missing]),
    ...(choice === undefined ? [] : [`it would go to ${choice.host}: ${choice.why}`]),
    ...(waitingBefore.length === 0
      ? []
      : [`first in the queue: ${waitingBefore.slice(0, 5).join(", ")}${more(waitingBefore.length - 5)}`]),
  ];
  if (answer.machines !== undefined)
    lines.push("", ...renderExplained(answer.machines), ...estimateNote(answer.machines));
  if (hosts.length === 0) return lines.join("\n");
  const rows = hosts.map((host) => [host.host, fitsWord(host), leftOf(host), host.message ?? ""]);
  const table = alignColumns([["HOST", "FITS", "LEFT", "WHY NOT"], ...rows]);
  const below = table.flatMap((line, index) => {
    const host = hosts[index - 1];
    return host === undefined ? [line] : [line, ...detailsOf(host).map((detail) => `    ${detail}`)];
  });
  return [...lines, "", ...below].join("\n");
}

function estimateNote(machines: readonly ExplainedMachine[]): string[] {
  return machines.some(({ basis }) => basis === "estimated")
    ? ["estimated speeds are not part of the score: placement counts them as unknown"]
    : [];
}

function claimLine({ claim }: FitAnswer): string {
  if (claim === undefined) return "claim: unknown";
  const parts = claimParts(claim).map(([label, bytes]) => `${label} ${formatBytes(bytes)}`);
  return `claim: ${formatBytes(claim.claimBytes)} = ${parts.join(" + ")}`;
}

function fitsLine({ hosts, areHostsHidden }: FitAnswer, fitting: number): string {
  const all = hosts.length;
  if (areHostsHidden === true) return "cannot tell where it fits: the hosts may not be listed";
  if (all === 0) return "no host is registered";
  if (hosts.some(({ fits }) => fits === "unknown"))
    return "cannot tell whether it fits: apply it, and the agent of the host reads the file";
  return fitting === 0 ? `fits on none of ${all} hosts now` : `fits on ${fitting} of ${all} hosts now`;
}

function fitsWord({ fits }: HostFit): string {
  return fits === true ? "yes" : fits === false ? "no" : "unknown";
}

function leftOf({ leftBytes, budgetBytes }: HostFit): string {
  if (leftBytes === undefined || budgetBytes === undefined) return "unknown";
  return `${formatBytes(leftBytes)} of ${formatBytes(budgetBytes)}`;
}

function detailsOf({ evicts, helps, helpsWhenEmpty }: HostFit): string[] {
  return [
    ...(helps ?? []).map(({ text }) => `fits with ${text}`),
    ...(helpsWhenEmpty ?? []).map(
      ({ text }) => `too large even for the empty host; fits on the empty host with ${text}`,
    ),
    ...(evicts === undefined ? [] : [`preempts ${evicts.map(evicted).join(", ")}`]),
  ];
}

function evicted({ service, bytes }: { readonly service: string; readonly bytes: number }): string {
  return `${service} (${formatBytes(bytes)})`;
}

function more(count: number): string {
  return count > 0 ? ` and ${count} more` : "";
}
