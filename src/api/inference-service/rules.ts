/** Validation rules (CEL) across fields of InferenceService.spec. Each message names the field. */
import { KNOWN_PLACEHOLDERS, PLACEHOLDERS } from "../fields/placeholders.ts";
import { groupRules } from "./group.ts";
import { idleRules } from "./idle.ts";
import { isOfRole, type ModelRole } from "./model-refs.ts";
import { HAS_DRAFT_TYPE } from "./speculative.ts";

const isProgram = "(has(self.runtime) ? self.runtime == 'generic' : has(self.backendRuntime))";

/** Rejects unknown placeholders of programs that users define. Aliases with a dot are checked later: here their rule would cost too much. */
const placeholders = (field: "command" | "args") => ({
  rule: `!${isProgram} || !has(self.${field}) || !self.${field}.exists(text, text${PLACEHOLDERS.map((name) => `.replace('{{${name}}}', '_')`).join("")}.matches('[{][{][^{}.]*[}][}]'))`,
  message: `spec.${field} holds an unknown placeholder; known with runtime generic and spec.backendRuntime: ${KNOWN_PLACEHOLDERS}`,
});

const DRAFT_REF = "self.speculativeDecoding.draftModelRef";
const DRAFT_MODEL = "self.speculativeDecoding.draftModel";
const HAS_DRAFT_REF = `has(self.speculativeDecoding) && has(${DRAFT_REF})`;
const HAS_DRAFT_MODEL = `has(self.speculativeDecoding) && has(${DRAFT_MODEL})`;
const HAS_DRAFT = `(${HAS_DRAFT_REF}) || (${HAS_DRAFT_MODEL}) || (${hasRole("draft")})`;
/** Both ways to name Models: modelRef with its companions, and modelRefs. */
const modelRules = [
  {
    rule: "has(self.modelRef) != has(self.modelRefs)",
    message: "set exactly one of spec.modelRef and spec.modelRefs",
  },
  {
    rule: `!(${HAS_DRAFT_REF}) || !(${hasRole("draft")})`,
    message: "set only one of spec.speculativeDecoding.draftModelRef and role draft in spec.modelRefs",
  },
  {
    rule: `!(${HAS_DRAFT_MODEL}) || ((!has(${DRAFT_REF}) || ${DRAFT_REF} == ${DRAFT_MODEL}) && (!has(self.modelRefs) || !self.modelRefs.exists(one, ${isOfRole("draft")} && one.name != ${DRAFT_MODEL})))`,
    message:
      "spec.speculativeDecoding.draftModel names another Model than draftModelRef or role draft in spec.modelRefs; remove draftModel",
  },
  {
    rule: `!(${HAS_DRAFT_TYPE}) || ${HAS_DRAFT}`,
    message:
      "spec.speculativeDecoding.type draft* needs a draft model: draftModelRef, or role draft in spec.modelRefs",
  },
  {
    rule: `!has(self.speculativeDecoding) || (${HAS_DRAFT_TYPE}) || !(${HAS_DRAFT})`,
    message:
      "speculativeDecoding.draftModelRef, draftModel and role draft in spec.modelRefs go only with a spec.speculativeDecoding.type draft*",
  },
  {
    rule: `!(${HAS_DRAFT_REF}) || ${isOther(DRAFT_REF)}`,
    message: "spec.speculativeDecoding.draftModelRef must name another Model than the service serves",
  },
  {
    rule: `!(${HAS_DRAFT_MODEL}) || ${isOther(DRAFT_MODEL)}`,
    message: "spec.speculativeDecoding.draftModel must name another Model than the service serves",
  },
  {
    rule: `!has(self.loraAdapters) || size(self.loraAdapters) == 0 || !(${hasRole("lora")})`,
    message: "set only one of spec.loraAdapters and role lora in spec.modelRefs",
  },
  {
    rule: `!(${hasRole("draft")}) || !has(self.mode) || self.mode == 'chat'`,
    message: "role draft in spec.modelRefs needs spec.mode chat",
  },
] as const;

type Fields<Name extends string, Value> = { readonly [N in Name]?: Value | undefined };

/** The part of a spec that the rules of settings read. */
export type RuledSettings = Fields<
  "mode" | "reasoningBudgetMessage" | "cacheTypeV" | "pooling" | "chatTemplate",
  string
> &
  Fields<
    "uBatchSize" | "batchSize" | "reasoningBudget" | "promptCacheMiB" | "contextSize" | "parallelSlots",
    number
  > &
  Fields<"flashAttention" | "jinja" | "kvUnified", boolean> &
  Fields<"speculativeDecoding", Fields<"type", string>> &
  Fields<"ropeScaling", RuledRopeScaling>;

type RuledRopeScaling = Fields<"type" | "factor", string> & Fields<"originalContext", number>;

interface SettingRule<Settings> {
  readonly rule: string;
  readonly message: string;
  /** The same rule, for settings that come from arguments, which the API server has not seen as settings. */
  readonly isBroken: (settings: Settings) => boolean;
}

const settingRules: readonly SettingRule<RuledSettings>[] = [
  {
    rule: "!has(self.uBatchSize) || self.uBatchSize <= (has(self.batchSize) ? self.batchSize : 2048)",
    message: "spec.uBatchSize must not be larger than spec.batchSize (2048 where it is absent)",
    isBroken: ({ uBatchSize = 0, batchSize = 2048 }) => uBatchSize > batchSize,
  },
  {
    rule: "!has(self.reasoningBudgetMessage) || has(self.reasoningBudget)",
    message: "spec.reasoningBudgetMessage needs spec.reasoningBudget",
    isBroken: ({ reasoningBudgetMessage, reasoningBudget }) =>
      reasoningBudgetMessage !== undefined && reasoningBudget === undefined,
  },
  {
    rule: "!has(self.cacheTypeV) || self.cacheTypeV in ['f16', 'f32'] || !has(self.flashAttention) || self.flashAttention",
    message:
      "spec.cacheTypeV is quantized, which needs flash attention: remove spec.flashAttention false or choose f16",
    isBroken: ({ cacheTypeV = "f16", flashAttention }) =>
      flashAttention === false && cacheTypeV !== "f16" && cacheTypeV !== "f32",
  },
  {
    rule: "!has(self.promptCacheMiB) || self.promptCacheMiB == 0 || !has(self.mode) || self.mode == 'chat'",
    message: "spec.promptCacheMiB must be 0 or absent with spec.mode embedding or rerank",
    isBroken: ({ promptCacheMiB = 0, mode = "chat" }) => promptCacheMiB !== 0 && mode !== "chat",
  },
  {
    rule: "!has(self.pooling) || (has(self.mode) && self.mode == 'embedding')",
    message: "spec.pooling needs spec.mode embedding",
    isBroken: ({ pooling, mode }) => pooling !== undefined && mode !== "embedding",
  },
  {
    rule: "!has(self.chatTemplate) || !has(self.jinja) || self.jinja",
    message: "spec.chatTemplate needs Jinja templates: remove spec.jinja false",
    isBroken: ({ chatTemplate, jinja }) => chatTemplate !== undefined && jinja === false,
  },
  {
    rule: "!has(self.speculativeDecoding) || self.speculativeDecoding.type in ['none', 'disabled'] || !has(self.mode) || self.mode == 'chat'",
    message: "spec.speculativeDecoding needs spec.mode chat",
    isBroken: ({ speculativeDecoding: { type = "none" } = {}, mode = "chat" }) =>
      !["none", "disabled"].includes(type) && mode !== "chat",
  },
  {
    rule: "!has(self.contextSize) || !has(self.parallelSlots) || (has(self.kvUnified) && self.kvUnified) || self.contextSize >= self.parallelSlots * 16",
    message:
      "spec.contextSize is shared by all spec.parallelSlots and must leave at least 16 tokens for each",
    isBroken: ({ contextSize, parallelSlots = 0, kvUnified }) =>
      contextSize !== undefined && kvUnified !== true && contextSize < parallelSlots * 16,
  },
];

const ruledRopeScaling: readonly SettingRule<RuledRopeScaling>[] = [
  {
    rule: "!has(self.factor) || double(self.factor) > 0.0",
    message: "ropeScaling.factor must be greater than 0",
    isBroken: ({ factor }) => factor !== undefined && Number(factor) <= 0,
  },
  {
    rule: "!has(self.originalContext) || self.type != 'linear'",
    message: "ropeScaling.originalContext goes only with type yarn or longrope",
    isBroken: ({ originalContext, type }) => originalContext !== undefined && type === "linear",
  },
];

/** The message of a rule that the settings break; undefined if they break none. */
export function contradictionInSettings(settings: RuledSettings): string | undefined {
  const broken = settingRules.find(({ isBroken }) => isBroken(settings));
  return (broken ?? ruledRopeScaling.find(({ isBroken }) => isBroken(settings.ropeScaling ?? {})))?.message;
}

export const serviceRules = [
  ...modelRules,
  ...settingRules.map(celOf),
  {
    rule: "!(has(self.revisionHistoryLimit) && has(self.rollout.revisionHistoryLimit))",
    message: "set only one of spec.revisionHistoryLimit and spec.rollout.revisionHistoryLimit",
  },
  {
    rule: "!has(self.runtime) || self.runtime != 'generic' || has(self.image) || has(self.command)",
    message: "spec.runtime generic needs spec.image or spec.command",
  },
  {
    rule: "!has(self.runtime) || self.runtime != 'generic' || has(self.image) || !has(self.command) || (size(self.command) > 0 && self.command[0].startsWith('/'))",
    message: "spec.command must begin with the absolute path of a program on the host",
  },
  {
    rule: "!has(self.backendRuntime) || (!has(self.runtime) && !has(self.command))",
    message:
      "spec.backendRuntime names the runtime and the command: remove spec.runtime and spec.command, or remove spec.backendRuntime",
  },
  placeholders("command"),
  placeholders("args"),
  ...groupRules,
  ...idleRules,
] as const;

export const ropeScalingRules = ruledRopeScaling.map(celOf);

function celOf({ rule, message }: Pick<SettingRule<unknown>, "rule" | "message">) {
  return { rule, message };
}

function hasRole(role: ModelRole): string {
  return `has(self.modelRefs) && self.modelRefs.exists(one, ${isOfRole(role)})`;
}

/** CEL: the name in a field is not that of a Model with another role. */
function isOther(field: string): string {
  return `!(has(self.modelRef) ? self.modelRef == ${field} : has(self.modelRefs) && self.modelRefs.exists(one, !(${isOfRole("draft")}) && one.name == ${field}))`;
}
