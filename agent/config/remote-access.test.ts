import { expect, test } from "vitest";
import { agentSettingsOf } from "../../cli/agent.ts";
import { loadAgentConfig } from "./load.ts";

const load = (flags: Parameters<typeof agentSettingsOf>[0]) =>
  loadAgentConfig({ flags: { stateDir: "/tmp/state", ...agentSettingsOf(flags) }, env: {} }).remoteAccess;

test("remote access is off unless a flag, a file or a managed preference switches it on", () => {
  const port = 20_998;
  expect(load({})).toEqual({ logs: false, doctor: false, port });
  expect(load({ remoteAccess: ["logs"] })).toEqual({ logs: true, doctor: false, port });
  expect(load({ remoteAccess: ["logs", "doctor"] })).toEqual({ logs: true, doctor: true, port });
});
