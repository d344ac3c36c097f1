/** The engine section of a description: engine, model, context, and all settings. Pure. */
import type { EngineSettings } from "../../src/api/engine-settings.ts";
import type { InferenceReplica, ReplicaModel } from "../../src/api/inference-replica.ts";
import { contentOf, shortRevision } from "../../src/capacity/template.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { type Field, fieldLines, type Section } from "./sections.ts";

/** Settings that have a separate line. */
const SEPARATE_LINE = new Set(["mode", "contextSize", "parallelSlots", "chatTemplate", "extraArgs"]);

export function engineSection({ spec, status }: InferenceReplica): Section {
  const { template, probes } = spec;
  const { engine, model, draft, projector, loraAdapters = [], auth, gate, tls } = template;
  const fields: Field[] = [
    ["runtime", template.runtime],
    ["model", modelOf(model, status?.model?.sizeBytes)],
    ["draft model", draft === undefined ? undefined : modelOf(draft, undefined)],
    ["projector", projector === undefined ? undefined : modelOf(projector, undefined)],
    ...loraAdapters.map(({ model: adapter, scale, servedName }): Field => {
      const use = servedName === undefined ? `× ${scale}` : `as model ${servedName}`;
      return ["LoRA adapter", `${modelOf(adapter, undefined)} ${use}`];
    }),
    ["mode", engine.mode],
    ["context", contextOf(engine, status?.contextPerSlot)],
    ["chat template", engine.chatTemplate === undefined ? undefined : "from the service"],
    ["settings", settingsOf(engine)],
    ["extra arguments", engine.extraArgs?.join(" ")],
    ["API key", auth === undefined ? undefined : `Secret ${auth.secretName}, key ${auth.key}`],
    ["TLS", tls === undefined ? undefined : `Secret ${tls.secretName}`],
    ["gate", gate],
    ["priority", `${spec.priority}${spec.evictionProtection ? ", never evicted under memory pressure" : ""}`],
    ["drain", `at most ${spec.drainSeconds}s for requests in flight`],
    ["host lost", `rescheduled after ${spec.hostLostSeconds}s of silence`],
    [
      "health",
      `hung after ${probes.failureThreshold} consecutive failed probes of ${probes.timeoutSeconds}s`,
    ],
  ];
  return { title: "Engine", lines: fieldLines(fields) };
}

function modelOf(model: ReplicaModel, foundBytes: number | undefined): string {
  const { source, format, gguf, sizeBytes } = model;
  const size = foundBytes ?? sizeBytes;
  const content = contentOf(model);
  const revision = content === undefined ? undefined : `revision ${shortRevision(content)}`;
  const about = [format, gguf?.quantization, size === undefined ? undefined : formatBytes(size), revision];
  return `${source} (${about.filter((word) => word !== undefined).join(", ")})`;
}

function contextOf(
  { contextSize, parallelSlots }: EngineSettings,
  perSlot: number | undefined,
): string | undefined {
  if (contextSize === undefined) return undefined;
  const slots = parallelSlots ?? 1;
  const each = perSlot === undefined || slots === 1 ? "" : `, ${perSlot} each`;
  return `${contextSize} tokens for ${slots} ${slots === 1 ? "slot" : "slots"}${each}`;
}

function settingsOf(engine: EngineSettings): string {
  return Object.entries(engine)
    .filter(([key, value]) => !SEPARATE_LINE.has(key) && value !== undefined)
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}
