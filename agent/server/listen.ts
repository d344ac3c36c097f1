/** Where the agent's server listens: always on loopback, and at the configured address once that is up. */
import type { Clock, Log } from "../../src/ports.ts";
import { createAgentServer, type OutsidePlace, type ServerOptions } from "./server.ts";

export interface ListenOptions extends ServerOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** 0 takes a free one. */
  readonly port: number;
  readonly outside: OutsidePlace | undefined;
}

const OUTSIDE_RETRY_MS = 10_000;

/** Resolves with the loopback port. A taken port costs probes and metrics their usual place, never the engines their agent. */
export async function startServer({ clock, log, port, outside, ...options }: ListenOptions): Promise<number> {
  const server = createAgentServer(options);
  const bound = await server.listen(port).catch((err: unknown) => {
    log.warn({ err, port }, "the metrics port is not free; taking another");
    return server.listen(0);
  });
  log.info({ port: bound }, "listening on loopback for /healthz, /readyz and /metrics");
  if (outside === undefined) return bound;
  const { signal } = options;
  const { address } = outside;
  let said: string | undefined;
  // The address may come up long after the agent: Wi-Fi, VPN.
  const attempt = (): void => {
    server.listenOutside(outside).then(
      () => log.info({ address, port: outside.port }, "metrics are served there too, for who has the token"),
      (err: Error) => {
        if (signal.aborted) return;
        if (said !== err.message)
          log.warn({ err, address, port: outside.port }, "cannot listen for metrics there yet; trying again");
        said = err.message;
        const cancel = clock.after(OUTSIDE_RETRY_MS, () => {
          signal.removeEventListener("abort", cancel);
          attempt();
        });
        signal.addEventListener("abort", cancel, { once: true });
      },
    );
  };
  attempt();
  return bound;
}
