/** The category of a model, by llmfit's names. Pure. */
import type { CatalogRecord } from "./record.ts";

export type Category = "General" | "Coding" | "Reasoning" | "Chat" | "Multimodal" | "Embedding";

export function categoryOf({ name, use_case }: CatalogRecord): Category {
  const [model, use] = [name.toLowerCase(), use_case.toLowerCase()];
  if (use.includes("embedding") || /embed|bge/.test(model)) return "Embedding";
  // Our own records say coding.
  if (/code|coding/.test(use) || model.includes("code")) return "Coding";
  if (/vision|multimodal/.test(use)) return "Multimodal";
  if (/reason|chain-of-thought/.test(use) || model.includes("deepseek-r1")) return "Reasoning";
  return /chat|instruction/.test(use) ? "Chat" : "General";
}
