/** docs/errors.md: the whole catalog, by section. */

import { agentErrors } from "../../src/api/errors/agent.ts";
import { apiErrors } from "../../src/api/errors/api.ts";
import { autoscalingErrors } from "../../src/api/errors/autoscaling.ts";
import { backendErrors } from "../../src/api/errors/backend.ts";
import { benchmarkErrors } from "../../src/api/errors/benchmark.ts";
import { cliErrors } from "../../src/api/errors/cli.ts";
import { consoleErrors } from "../../src/api/errors/console.ts";
import { doctorErrors } from "../../src/api/errors/doctor.ts";
import { engineErrors } from "../../src/api/errors/engine.ts";
import type { ErrorEntry } from "../../src/api/errors/entry.ts";
import { gatewayErrors } from "../../src/api/errors/gateway.ts";
import { idleErrors } from "../../src/api/errors/idle.ts";
import { installErrors } from "../../src/api/errors/install.ts";
import { objectiveErrors } from "../../src/api/errors/objectives.ts";
import { placementErrors } from "../../src/api/errors/placement.ts";
import { podErrors } from "../../src/api/errors/pods.ts";
import { remoteErrors } from "../../src/api/errors/remote.ts";
import { replicaErrors } from "../../src/api/errors/replica.ts";
import { rolloutErrors } from "../../src/api/errors/rollout.ts";
import { routeErrors } from "../../src/api/errors/routes.ts";
import { sourceErrors } from "../../src/api/errors/source.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

const catalog: Readonly<Record<string, ErrorEntry>> = errorCatalog;

type Section = readonly [title: string, entries: Record<string, ErrorEntry>];

const sections: readonly Section[] = [
  ["Sources and downloads", sourceErrors],
  ["Engines", engineErrors],
  ["Replicas", replicaErrors],
  ["Pods", podErrors],
  ["Autoscaling", autoscalingErrors],
  ["Idle services", idleErrors],
  ["Service level objectives", objectiveErrors],
  ["Placement", placementErrors],
  ["BackendRuntimes", backendErrors],
  ["Gateway", gatewayErrors],
  ["Console", consoleErrors],
  ["Benchmarks", benchmarkErrors],
  ["Rollouts and hosts", rolloutErrors],
  ["Model names and gateways", routeErrors],
  ["Agent and host", agentErrors],
  ["API server", apiErrors],
  ["Command line", cliErrors],
  ["Doctor", doctorErrors],
  ["Install and upgrade", installErrors],
  ["Remote logs and doctor", remoteErrors],
];

/** The page. A code in no section named above still appears, under "Others". */
export function renderErrors(): string {
  const listed = new Set(sections.flatMap(([, entries]) => Object.keys(entries)));
  const others = Object.fromEntries(Object.entries(errorCatalog).filter(([code]) => !listed.has(code)));
  const all: readonly Section[] = [...sections, ["Others", others]];
  const filled = all.filter(([, entries]) => Object.keys(entries).length > 0);
  return [
    "<!-- Generated from src/api/errors by npm run generate. Do not edit. -->",
    "# Error codes",
    "",
    "Conditions, phases, Events and errors of the command line have these codes as their reason. The message next to the code has the details; this page describes each code and what to do.",
    "",
    ...filled.flatMap(sectionLines),
  ].join("\n");
}

function sectionLines([title, entries]: Section): string[] {
  // A code that two sections define appears once, with the entry that the catalog holds.
  const own = Object.entries(entries).filter(([code, entry]) => catalog[code] === entry);
  const rows = own.sort(([a], [b]) => (a < b ? -1 : 1));
  return [
    `## ${title}`,
    "",
    ...markdownTable(
      ["code", "what happened", "what to do"],
      rows.map(([code, entry]) => [`\`${code}\``, escapeCell(entry.what), remedyOf(entry)]),
    ),
    "",
  ];
}

function remedyOf(entry: ErrorEntry): string {
  return escapeCell(entry.command === undefined ? entry.do : `${entry.do}: \`${entry.command}\``);
}
