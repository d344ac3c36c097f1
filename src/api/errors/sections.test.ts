import { expect, test } from "vitest";
import { errorCatalog, remedyOf } from "../errors.ts";
import { agentErrors } from "./agent.ts";
import { apiErrors } from "./api.ts";
import { autoscalingErrors } from "./autoscaling.ts";
import { backendErrors } from "./backend.ts";
import { benchmarkErrors } from "./benchmark.ts";
import { cliErrors } from "./cli.ts";
import { consoleErrors } from "./console.ts";
import { doctorErrors } from "./doctor.ts";
import { engineErrors } from "./engine.ts";
import { gatewayErrors } from "./gateway.ts";
import { idleErrors } from "./idle.ts";
import { installErrors } from "./install.ts";
import { objectiveErrors } from "./objectives.ts";
import { placementErrors } from "./placement.ts";
import { podErrors } from "./pods.ts";
import { remoteErrors } from "./remote.ts";
import { replicaErrors } from "./replica.ts";
import { rolloutErrors } from "./rollout.ts";
import { routeErrors } from "./routes.ts";
import { sourceErrors } from "./source.ts";

const sections = [
  sourceErrors,
  engineErrors,
  agentErrors,
  apiErrors,
  placementErrors,
  replicaErrors,
  podErrors,
  autoscalingErrors,
  backendErrors,
  benchmarkErrors,
  idleErrors,
  objectiveErrors,
  gatewayErrors,
  consoleErrors,
  rolloutErrors,
  routeErrors,
  cliErrors,
  doctorErrors,
  installErrors,
  remoteErrors,
].map((section) => Object.keys(section));

test("no code is defined in two sections, or one text would silently replace the other", () => {
  const codes = sections.flat();
  expect(codes.filter((code, index) => codes.indexOf(code) !== index)).toEqual([]);
});

test("every section is part of the catalog", () => {
  expect(sections.flat().sort()).toEqual(Object.keys(errorCatalog).sort());
});

test.each<[Parameters<typeof remedyOf>[0], Record<string, string | number>, string | undefined]>([
  ["NotReadyInTime", { service: "chat -n team" }, "metalbridge describe chat -n team"],
  ["PortTaken", { port: 8080 }, "lsof -i :8080"],
  ["HostAddressesNeeded", { host: "mac-1" }, "metalbridge host add mac-1 --address <address>"],
  ["NotReadyInTime", {}, "metalbridge describe <service>"],
  ["SourceNotFound", { host: "mac-1" }, undefined],
])("the command of %s is filled with what is known: %o", (code, known, command) => {
  expect(remedyOf(code, known).command).toBe(command);
});
