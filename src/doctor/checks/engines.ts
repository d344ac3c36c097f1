/** Engines, and what else on the machine competes with them. */
import type { InterferingApp } from "../../engines/contract/description.ts";
import { ENGINES } from "../../engines/registry.ts";
import { ENGINE_PROGRAMS, TRACES } from "../../engines/traces.ts";
import { compareVersions } from "../../util/compare-versions.ts";
import { type Check, defineCheck } from "./check.ts";

/** Programs of engines by the name of their executable. */
const ENGINE = new RegExp(
  `(^|/)(${ENGINE_PROGRAMS.map((name) => name.replaceAll(".", "\\.")).join("|")})(\\s|$)`,
);

/** Applications that interfere with engines. */
const appChecks: readonly Check[] = TRACES.flatMap(({ app }) => (app === undefined ? [] : [appCheck(app)]));

export const engineChecks: readonly Check[] = [
  defineCheck({
    code: "RuntimeNotInstalled",
    title: "installed engines",
    severity: "error",
    reason: "a host without a usable engine gets no replica",
    needs: ["engines"],
    judge: ({ engines }) => {
      const problems = engines.flatMap(({ problem }) =>
        problem === undefined ? [] : [{ code: problem.code, finding: problem.message }],
      );
      return engines.length > 0 ? problems : [{ finding: "no engine was found on this host" }];
    },
  }),
  defineCheck({
    code: "EngineKnownBad",
    title: "versions of engines",
    severity: "warning",
    reason: "engines change their flags between versions",
    needs: ["engines"],
    judge: ({ engines }) =>
      engines.flatMap(({ runtime, version, path }) =>
        (ENGINES.find((engine) => engine.runtime === runtime)?.host?.knownBad ?? [])
          .filter(({ below }) => version !== undefined && compareVersions(version, below) < 0)
          .map(({ why }) => ({ finding: `${path} is version ${version}: ${why}` })),
      ),
  }),
  defineCheck({
    code: "EngineOfAnotherUser",
    title: "owners of engines",
    severity: "note",
    reason:
      "an account that can replace the program decides what the agent's account runs from the next start on",
    needs: ["engines", "stateDir"],
    judge: ({ engines, stateDir: { ownUid } }) =>
      engines
        .filter(({ changeableBy }) => changeableBy !== undefined && changeableBy !== ownUid)
        .map(({ path, changeableBy }) => ({ finding: `uid ${changeableBy} may replace ${path}` })),
  }),
  defineCheck({
    code: "EngineFilesChanged",
    title: "files of installed engines",
    severity: "error",
    reason: "an engine that root installed must run only files that match their recorded hashes",
    needs: ["pinnedEngines"],
    judge: ({ pinnedEngines }) =>
      pinnedEngines
        .filter(({ changes }) => changes.length > 0)
        .map(({ path, changes }) => ({
          finding: `${path}: ${changes.slice(0, 3).join("; ")}${changes.length > 3 ? `; and ${changes.length - 3} more` : ""}`,
        })),
  }),
  defineCheck({
    code: "PortRangeInUse",
    title: "ports of engines",
    severity: "warning",
    reason: "an engine cannot use a port of another program; a replica that used it stays in Waiting",
    needs: ["ports"],
    judge: ({ ports: { first, last, listeners } }) =>
      listeners
        .filter(({ port, isOurs }) => !isOurs && port >= first && port <= last)
        .map(({ port, program, pid }) => ({
          finding: `port ${port} is used by ${program ?? "another program"}${pid === undefined ? "" : ` (pid ${pid})`}`,
          command:
            pid === undefined ? `sudo lsof -nP -iTCP:${port} -sTCP:LISTEN` : `ps -p ${pid} -o command=`,
        })),
  }),
  defineCheck({
    code: "PortRangeEphemeral",
    title: "range of ports",
    severity: "warning",
    reason: "any outgoing connection may take an engine's port while the engine restarts",
    needs: ["ports"],
    judge: ({ ports: { first, last, ephemeral } }) =>
      ephemeral === undefined || last < ephemeral[0] || first > ephemeral[1]
        ? []
        : [
            {
              finding: `${first}-${last} overlaps ${ephemeral.join("-")}, from which the system gives ports to connections`,
            },
          ],
  }),
  ...appChecks,
  defineCheck({
    code: "EngineServiceRuns",
    title: "engines under other supervisors",
    severity: "warning",
    reason: "a supervisor restarts what the agent stops, and upgrades what the agent runs",
    needs: ["supervised"],
    judge: ({ supervised }) =>
      supervised.map(({ name, stop }) => ({ finding: `${name} is loaded`, command: stop })),
  }),
  defineCheck({
    code: "ForeignEngineRuns",
    title: "engines that are not ours",
    severity: "warning",
    reason: "their memory is not in the agent's budget",
    needs: ["processes"],
    judge: ({ processes }) =>
      processes
        .filter(
          ({ command, isOurs }) => !isOurs && ENGINE.test(programOf(command)) && !/\.app\//.test(command),
        )
        .map(({ pid, command }) => ({
          finding: `pid ${pid}: ${command.slice(0, 120)}`,
          command: `kill ${pid}`,
        })),
  }),
];

function appCheck({ command: pattern, finding, ...check }: InterferingApp): Check {
  return defineCheck({
    ...check,
    needs: ["processes"],
    judge: ({ processes }) =>
      processes
        .filter(({ command, isOurs }) => !isOurs && pattern.test(command))
        .map(({ pid }) => ({ finding: `${finding} (pid ${pid})` }))
        .slice(0, 1),
  });
}

/** The executable and, of an interpreter, its script. */
function programOf(command: string): string {
  const [program = "", script = ""] = command.split(/\s+/);
  return /(^|\/)(python[\d.]*|node|bash|sh)$/i.test(program) ? script : program;
}
