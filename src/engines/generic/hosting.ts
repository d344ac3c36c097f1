/** Settings and memory claim of runtime generic on hosts. */
import type { EngineSettings } from "../../api/engine-settings.ts";
import { type Placeholder, withoutAliases } from "../../api/fields/placeholders.ts";
import type { ProgramSpec } from "../../api/fields/program.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { modelNamesOf, speculativeDecodingOf } from "../../api/inference-service/roles.ts";
import type { ClaimEstimator } from "../contract/claims.ts";
import { usesPlaceholder } from "./program.ts";

const HANDLERS = ["httpGet", "tcpSocket", "exec"];
/** Margin for the unknown memory of a program in addition to its weights. */
const MARGIN_SHARE = 0.2;
const MARGIN_BYTES = 256 * 1024 ** 2;
/** A terminal is a Node process, which was measured at 45 to 75 MB. */
const TERMINAL_BYTES = 64 * 1024 ** 2;

/** Fields of the service that only this runtime uses on a host. A change of them creates a new revision. */
export const programFields = [
  "command",
  "args",
  "env",
  "resources",
  "inFlightProbe",
  "tty",
  "probeOverrides",
] as const;

export const honoredProbes = ["liveness", "readiness"].flatMap((probe) =>
  HANDLERS.map((handler) => `${probe}.${handler}`),
);

/** Parts of honored fields that have no effect on hosts. */
export function unhonoredParts(spec: InferenceServiceSpec): string[] {
  const { resources, probeOverrides, command = [], args = [], env = [] } = spec;
  const texts = [...command, ...args, ...env.map(({ value }) => String(value ?? ""))].map(withoutAliases);
  const uses = (name: Placeholder) => usesPlaceholder({ command: texts, env: [] }, name);
  return [
    ...Object.keys(resources ?? {}).flatMap((key) => (key === "memory" ? [] : [`resources.${key}`])),
    ...(spec.contextSize === undefined || uses("contextSize") ? [] : ["contextSize"]),
    ...(spec.parallelSlots === undefined || uses("slots") ? [] : ["parallelSlots"]),
    ...unusedDraft(spec, uses("draftModel")),
    ...["liveness" as const, "readiness" as const].flatMap((name) => {
      const probe = (probeOverrides?.[name] ?? {}) as Record<string, object | undefined>;
      const foreign = ["httpGet", "tcpSocket"].flatMap((handler) =>
        Object.keys(probe[handler] ?? {}).map((key) => `${handler}.${key}`),
      );
      return foreign.flatMap((key) => (key === "httpGet.path" ? [] : [partOf(name, key)]));
    }),
  ];
}

/** A program gets only the path of the draft model: its arguments have all other settings. */
function unusedDraft(spec: InferenceServiceSpec, isUsed: boolean): string[] {
  const { draft } = modelNamesOf(spec);
  const { type, ...tuning } = speculativeDecodingOf(spec) ?? {};
  const field = spec.modelRefs?.some(({ role }) => role === "draft")
    ? `modelRefs ${draft?.name} (draft)`
    : draft?.field.replace("spec.", "");
  const ignored = { ...tuning, type: type === "draft" ? undefined : type };
  return [
    ...(field === undefined || isUsed ? [] : [field]),
    ...Object.entries(ignored).flatMap(([key, value]) =>
      value === undefined ? [] : [`speculativeDecoding.${key}`],
    ),
  ];
}

function partOf(probe: string, key: string): string {
  const instead = key.endsWith(".port") ? " (the port that the program was given is used)" : "";
  return `probeOverrides.${probe}.${key}${instead}`;
}

function programClaimBytes(weightsBytes: number, { program }: EngineSettings): number {
  const terminalBytes = program?.tty === true ? TERMINAL_BYTES : 0;
  return (program?.memoryBytes ?? bytesByFormula(weightsBytes, program?.memoryFormula)) + terminalBytes;
}

function bytesByFormula(weightsBytes: number, formula: ProgramSpec["memoryFormula"]): number {
  if (formula === undefined) return weightsBytes + Math.ceil(weightsBytes * MARGIN_SHARE) + MARGIN_BYTES;
  return Math.ceil((weightsBytes * formula.weightsPercent) / 100) + formula.extraBytes;
}

/** For the replica's status. */
export function programClaimBasis({ program }: EngineSettings): string {
  const basis = basisOf(program);
  return program?.tty === true ? `${basis}, and ${TERMINAL_BYTES / 1024 ** 2} MiB for its terminal` : basis;
}

function basisOf(program: ProgramSpec | undefined): string {
  const { memoryBytes, memoryFormula, backend } = program ?? {};
  if (memoryBytes !== undefined)
    return backend === undefined
      ? "spec.resources.memory of the service"
      : `spec.resources.memory of the service or host.memory.fixed of BackendRuntime ${backend}`;
  if (memoryFormula === undefined)
    return `size of the weights on disk plus ${MARGIN_SHARE * 100}% and ${MARGIN_BYTES / 1024 ** 2} MiB`;
  const { weightsPercent, extraBytes } = memoryFormula;
  return `${weightsPercent}% of the size of the weights plus ${Math.round(extraBytes / 1024 ** 2)} MiB, as in host.memory of BackendRuntime ${backend}`;
}

export const genericClaims: ClaimEstimator = {
  estimate: (summary, settings) => {
    const draftSize = settings.draft?.weightsBytes ?? 0;
    const claimBytes = programClaimBytes((summary.weightsBytes ?? 0) + draftSize, settings);
    const weightsBytes = Math.min(summary.weightsBytes ?? 0, claimBytes);
    const draftBytes = Math.min(draftSize, claimBytes - weightsBytes);
    const overheadBytes = claimBytes - weightsBytes - draftBytes;
    const buffers = { kvBytes: 0, computeBytes: 0, outputBytes: 0, promptCacheBytes: 0 };
    const models = { weightsBytes, projectorBytes: 0, draftBytes, loraBytes: 0 };
    return { claimBytes, ...models, ...buffers, overheadBytes };
  },
  uncountedArgs: [],
  contextWarning: () => undefined,
};
