/** `metalbridge crds`: prints the definitions, roles and admission policies as YAML for kubectl. */

import type { Command } from "commander";
import { type AccessOptions, clusterAccess } from "../src/api/access/cluster.ts";
import { customResourceDefinitions } from "../src/api/crd/definitions.ts";
import { manifestYaml } from "../src/kube/manifest-yaml.ts";
import { writeOut } from "./program/output.ts";

/** Options and action of the verb. */
export function configureCrds(command: Command): void {
  command
    .option(
      "--allow-dangerous-pods",
      "omit the policy against pods that can take over their node; if the policy is installed, delete it and its binding: metalbridge-dangerous-pods",
    )
    .addHelpText("after", "\nInstall with: metalbridge crds | kubectl apply --server-side -f -")
    .action(printCrds);
}

function printCrds(options: AccessOptions): void {
  const objects = [...customResourceDefinitions(), ...clusterAccess(options)];
  writeOut(`---\n${manifestYaml(objects)}`);
}
