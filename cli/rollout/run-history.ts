/** `metalbridge rollout history`: lists the revisions of a service. */

import { chooseRevision } from "../../src/capacity/rollback/undo.ts";
import { revisionHistoryLimit } from "../../src/capacity/template.ts";
import { withCluster } from "../cluster/cluster.ts";
import type { ClusterFlags, OutputFormat } from "../cluster/flags.ts";
import { printResult } from "../program/output.ts";
import { readServiceHistory } from "./read.ts";
import { renderHistory, renderRevision } from "./render.ts";

interface HistoryFlags extends ClusterFlags {
  readonly revision?: number;
  readonly output: OutputFormat;
}

export async function rolloutHistory(name: string, flags: HistoryFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const { service, history } = await readServiceHistory(cluster, name);
    const chosen =
      flags.revision === undefined ? undefined : chooseRevision(service, history, flags.revision);
    printResult(flags.output, chosen ?? history, () =>
      chosen === undefined
        ? renderHistory(history, revisionHistoryLimit(service.spec), Date.now())
        : renderRevision(chosen),
    );
  });
}
