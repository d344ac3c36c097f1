/** `metalbridge crds`: the custom resource definitions as YAML, ready for kubectl. */
import type { Command } from "commander";
import { stringify } from "yaml";
import { loadCrds } from "./crds/load.ts";

/** Options and action of the verb. */
export function configureCrds(command: Command): void {
  command
    .addHelpText("after", "\nInstall with: metalbridge crds | kubectl apply --server-side -f -")
    .action(printCrds);
}

async function printCrds(): Promise<void> {
  const documents = (await loadCrds()).map((crd) => stringify(crd));
  process.stdout.write(documents.map((text) => `---\n${text}`).join(""));
}
