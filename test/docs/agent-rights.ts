/** A credential with exactly the rights that docs/add-a-host.md names. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { parse, stringify } from "yaml";
import { z } from "zod";
import type { TestCluster } from "../cluster/cluster.ts";
import { root } from "./pages.ts";

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Absent: in the whole cluster. */
  readonly namespace?: string;
}

const CORE = ["secrets", "serviceaccounts/token"];

const kubeconfigSchema = z.looseObject({ users: z.array(z.looseObject({ name: z.string() })) });

/** The table of the page as RBAC rules. */
export function documentedRules(): readonly Rule[] {
  const page = readFileSync(path.join(root, "docs/add-a-host.md"), "utf8");
  const section = page.split("## What the agent's credential needs")[1]?.split("\n## ")[0] ?? "";
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

/** A kubeconfig with the account's token in place of the administrator's. */
export async function writeAccountKubeconfig(
  { kubeconfig, kubectl }: Pick<TestCluster, "kubeconfig" | "kubectl">,
  { name, namespace, file }: { readonly name: string; readonly namespace: string; readonly file: string },
): Promise<void> {
  const token = (await kubectl(["create", "token", name, "-n", namespace])).trim();
  const config = kubeconfigSchema.parse(parse(readFileSync(kubeconfig, "utf8")));
  const users = config.users.map((user) => ({ name: user.name, user: { token } }));
  await writeFile(file, stringify({ ...config, users }), { mode: 0o600 });
}
