import { expect, test } from "vitest";
import type { Log } from "../src/util/ports.ts";
import { createTlsFailures } from "./finished-requests.ts";

test("a service whose certificate cannot be verified is reported once, and again after a success", () => {
  const warned: object[] = [];
  const nothing = () => {};
  const log: Log = {
    debug: nothing,
    info: nothing,
    warn: (data: object) => void warned.push(data),
    error: nothing,
    child: () => log,
  };
  const finished = createTlsFailures(log);
  const details = "upstream_reset_before_response_started{remote_connection_failure|TLS_error:X}";
  const failed = { cluster: "default/a", endpoint: "192.0.2.1:1", details };
  finished(failed);
  finished(failed);
  finished({ ...failed, details: "upstream_reset_before_response_started{connection_timeout}" });
  expect(warned).toEqual([{ service: "default/a", endpoint: "192.0.2.1:1", details }]);
  finished({ ...failed, details: "via_upstream" });
  finished(failed);
  expect(warned).toHaveLength(2);
});
