/** `metalbridge crds`: the custom resource definitions as YAML, ready for kubectl. */
import type { Command } from "commander";
import { stringify } from "yaml";
import { customResourceDefinitions } from "../src/api/crd/definitions.ts";

/** Options and action of the verb. */
export function configureCrds(command: Command): void {
  command
    .addHelpText("after", "\nInstall with: metalbridge crds | kubectl apply --server-side -f -")
    .action(printCrds);
}

function printCrds(): void {
  const documents = customResourceDefinitions().map((crd) => stringify(crd));
  process.stdout.write(documents.map((text) => `---\n${text}`).join(""));
}
