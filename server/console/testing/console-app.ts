/** The server's app with a console and without a cluster behind its density API. */
import type { FastifyInstance } from "fastify";
import { createDensity } from "../../../fitness/density/density.ts";
import { createFitIndex } from "../../../fitness/density/fits.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { createApp } from "../../rest/app.ts";
import { type ConsoleOptions, createConsole } from "../console.ts";

export function consoleApp(
  options: Pick<ConsoleOptions, "cluster" | "folder"> & Partial<ConsoleOptions>,
  notReady: () => string | undefined = () => undefined,
): FastifyInstance {
  const page = createConsole({
    version: "1.2.3",
    clock: systemClock,
    log: quietLog,
    isReadOnly: false,
    isOnLoopback: false,
    ...options,
  });
  const app = createApp({
    density: createDensity(createFitIndex([])),
    clock: systemClock,
    log: quietLog,
    authorize: async () => ({ at: "unauthenticated" }),
    notReady,
    console: page,
  });
  app.addHook("onClose", async () => page.close());
  return app;
}
