import { expect, test } from "vitest";
import { errorCatalog } from "../errors.ts";
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
