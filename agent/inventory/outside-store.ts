/** Finds models on a host that are not in the agent's store: in the home folder of its user, in its model roots, in a running Ollama. */
import { homedir } from "node:os";
import type { HostInstalled } from "../../src/api/host.ts";
import { isOwnModel } from "../../src/engines/contract/shared-daemon.ts";
import type { AgentConfig } from "../config/schema.ts";
import { parseAddress } from "../engines/driver/http.ts";
import { readInstalled } from "./installed.ts";

const OLLAMA = "127.0.0.1:11434";

export async function installedElsewhere({
  modelRoots,
  ollama,
  reportInstalled,
}: Pick<AgentConfig, "modelRoots" | "ollama" | "reportInstalled">): Promise<readonly HostInstalled[]> {
  if (!reportInstalled) return [];
  const { models } = await readInstalled({
    homes: [homedir()],
    folders: modelRoots,
    ollama: parseAddress(ollama.address ?? OLLAMA),
  });
  return models.flatMap(({ name: source, ...rest }) => {
    // Models that the agent created in a shared server for its replicas are not reported.
    return isOwnModel(source.replace(/^ollama:\/\//, "")) ? [] : [{ source, ...rest }];
  });
}
