/** The rights that docs/add-a-host.md names. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { root } from "./pages.ts";

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Absent: in the whole cluster. */
  readonly namespace?: string;
}

const CORE = ["secrets", "serviceaccounts/token"];

/** The table of the page as RBAC rules. */
export function documentedRules(): readonly Rule[] {
  const page = readFileSync(path.join(root, "docs/add-a-host.md"), "utf8");
  const section = page.split("## Rights of the agent's credential")[1]?.split("\n## ")[0] ?? "";
  return [...section.matchAll(/^\| (`.+?) \| (.+?) \|$/gm)].map(([, on = "", what = ""]) => {
    const [named = "", place] = on.split(" in ");
    const resources = [...named.matchAll(/`([a-z/]+)`/g)].map(([, resource]) => resource ?? "");
    const group =
      /\(([a-z.0-9]+)\)/.exec(named)?.[1] ??
      (resources.some((resource) => CORE.includes(resource)) ? "" : "metalbridge.dev");
    const verbs = [...what.matchAll(/\b(get|list|watch|create|update|patch|delete)\b/g)].map(
      ([verb]) => verb,
    );
    const rule = { apiGroups: [group], resources, verbs };
    return place === undefined ? rule : { ...rule, namespace: place.replaceAll("`", "") };
  });
}
