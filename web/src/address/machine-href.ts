/** Where a machine has its page. */
import type { HostRow } from "../../../src/console/rows.ts";

export function hrefOfMachine({ kind, name }: Pick<HostRow, "kind" | "name">): string {
  return `/${kind === "Host" ? "hosts" : "nodes"}/${encodeURIComponent(name)}`;
}
