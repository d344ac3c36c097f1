/** The dashboards that are shipped. */
import { density } from "./density.ts";
import { fleetDashboard } from "./fleet.ts";
import { host } from "./host.ts";
import { type Dashboard, renderDashboard } from "./panel.ts";
import { service } from "./service.ts";

export const dashboards: readonly Dashboard[] = [fleetDashboard, host, service, density];

/** Paths from the repository's root, and what belongs there. */
export function dashboardFiles(): readonly (readonly [path: string, content: string])[] {
  return dashboards.map((dashboard) => [
    `charts/metalbridge/dashboards/${dashboard.uid.replace("metalbridge-", "")}.json`,
    renderDashboard(dashboard),
  ]);
}
