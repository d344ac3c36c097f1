/** Placeholders in commands, arguments, variables and probes of programs that users define. */

/** Each with the alias that llmaz and Go templates use. */
const ALIASES = {
  model: "ModelPath",
  modelName: "ModelName",
  draftModel: "DraftModelPath",
  port: "Port",
  address: "Address",
  contextSize: "ContextSize",
  slots: "Slots",
  tensorParallelSize: "TensorParallelSize",
  pipelineParallelSize: "PipelineParallelSize",
} as const;

export type Placeholder = keyof typeof ALIASES;
export const PLACEHOLDERS = Object.keys(ALIASES) as readonly Placeholder[];
/** For messages. */
export const KNOWN_PLACEHOLDERS = PLACEHOLDERS.map((name) => `{{${name}}}`).join(" ");

const ALIAS = /\{\{ *\.([A-Za-z]+) *\}\}/g;
const NAME_BY_ALIAS = new Map<string, string>(Object.entries(ALIASES).map(([name, alias]) => [alias, name]));

/** Replaces aliases such as `{{ .ModelPath }}`. Unknown ones stay, so that they are reported as they were written. */
export function withoutAliases(text: string): string {
  return text.replace(ALIAS, (whole, alias: string) => {
    const name = NAME_BY_ALIAS.get(alias);
    return name === undefined ? whole : `{{${name}}}`;
  });
}

/** A whole text (RE2, for CEL): characters and single braces, or a known placeholder. Unknown, empty and nested ones do not match. */
const KNOWN = `(${PLACEHOLDERS.join("|")}| *[.](${Object.values(ALIASES).join("|")}) *)`;
const ONLY_KNOWN = `^([^{]|[{][^{]|[{][{]${KNOWN}[}][}])*[{]?$`;

/** CEL expression: true if the text holds no other placeholders. The flag lets `.` and sets match line breaks. */
export function onlyKnownPlaceholders(text: string): string {
  return `${text}.matches('(?s)${ONLY_KNOWN}')`;
}
