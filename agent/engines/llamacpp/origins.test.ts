/** Which web pages may read from a real engine. */
import { expect, it } from "vitest";
import { processPorts, runFolder, stateLog } from "../../../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../../../src/supervise/supervisor.ts";
import { healthy, prepareTiny, program } from "../../../test/fixtures/started-llama-server.ts";

it.skipIf(program === undefined)(
  "llama-server accepts requests from web pages of this machine, and from no others",
  async () => {
    await using folder = runFolder();
    const states = stateLog();
    const { driver, dir, prepared, target } = await prepareTiny(folder);
    const { start } = createSupervisor(processPorts());
    const engine = await start(dir, { ...prepared, record: {} }, states.onChange);
    await healthy(driver, target);
    const allowed = async (origin: string, method = "GET") => {
      const url = `http://${target.host}:${target.port}/v1/models`;
      const answer = await fetch(url, {
        method,
        headers: { origin, "access-control-request-method": "POST" },
      });
      await answer.arrayBuffer();
      return answer.headers.get("access-control-allow-origin");
    };
    for (const method of ["GET", "OPTIONS"]) {
      expect(await allowed("http://localhost:3000", method)).toBe("http://localhost:3000");
      for (const origin of [
        "http://evil.example",
        "http://192.168.1.7:8080",
        "http://localhost.evil.example",
        "http://evillocalhost",
        "null",
      ])
        expect([null, ""], `${method} ${origin}`).toContain(await allowed(origin, method));
    }
    await engine.signal("TERM");
    await states.until("gone");
  },
);
