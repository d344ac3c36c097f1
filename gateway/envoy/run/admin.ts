/** Requests to Envoy's admin interface on its Unix socket. */
import { request } from "node:http";

const TIMEOUT_MS = 5_000;
const MAX_CHARACTERS = 64 << 20;

export interface EnvoyAdmin {
  /** The body of a 200 response; undefined otherwise, also if there is no response. */
  readonly get: (path: string) => Promise<string | undefined>;
  /** True for a 200 response. */
  readonly post: (path: string) => Promise<boolean>;
}

export function createAdmin(socketPath: string): EnvoyAdmin {
  const call = (method: string, path: string): Promise<string | undefined> =>
    new Promise((resolve) => {
      const settings = { socketPath, method, path, timeout: TIMEOUT_MS, agent: false };
      const call = request(settings, (response) => {
        let body = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          body += chunk;
          if (body.length > MAX_CHARACTERS) call.destroy();
        });
        response.once("end", () => resolve(response.statusCode === 200 ? body : undefined));
        response.once("error", () => resolve(undefined));
        response.once("close", () => resolve(undefined));
      });
      call.once("timeout", () => call.destroy());
      call.once("error", () => resolve(undefined));
      call.end();
    });
  return {
    get: (path) => call("GET", path),
    post: async (path) => (await call("POST", path)) !== undefined,
  };
}
