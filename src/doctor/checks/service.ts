/** Checks of the service that keeps the agent running. */
import { type Check, defineCheck } from "./check.ts";

const FEWEST_FILES = 1_024;
const RESTART_LOOP = 10;

export const serviceChecks: readonly Check[] = [
  defineCheck({
    code: "AgentNotRunning",
    title: "running agent",
    severity: "error",
    reason: "a host is removed from its Services 40 s after its agent has stopped",
    needs: ["agent", "stateDir"],
    judge: ({ agent, stateDir }) =>
      agent.isRunning ? [] : [{ finding: `no agent answers on ${stateDir.path}` }],
  }),
  defineCheck({
    code: "ServiceNotInstalled",
    title: "service of the agent",
    severity: "warning",
    reason:
      "an agent that was started from a terminal exits with the terminal, and does not start after a boot",
    needs: ["service"],
    judge: ({ service: { found } }) =>
      found === undefined ? [{ finding: "launchd or systemd knows no service of the agent" }] : [],
  }),
  defineCheck({
    code: "ServiceIsLoginAgent",
    title: "LaunchDaemon or LaunchAgent",
    severity: "warning",
    platforms: ["darwin"],
    reason: "a LaunchAgent starts at login, stops at logout, and is subject to Local Network privacy",
    needs: ["service"],
    judge: ({ service: { found } }) =>
      found?.kind === "loginAgent" ? [{ finding: `${found.name} is a LaunchAgent` }] : [],
  }),
  defineCheck({
    code: "ServiceFailing",
    title: "state of the service",
    severity: "error",
    reason: "an agent that restarts in a loop does not renew its Lease",
    needs: ["service"],
    judge: ({ service: { found } }) => {
      if (found === undefined) return "notApplicable";
      const { name, state, runs = 0, lastExit, pid } = found;
      const hasFailed = lastExit !== undefined && !/^(0|\(never exited\))$/.test(lastExit);
      const isDown = pid === undefined;
      if (!isDown && !(hasFailed && runs >= RESTART_LOOP)) return [];
      const exit = lastExit === undefined ? "" : `, last exit ${lastExit}`;
      return [{ finding: `${name} is ${state}, started ${runs} times${exit}` }];
    },
  }),
  defineCheck({
    code: "ServiceThrottled",
    title: "throttling by launchd",
    severity: "warning",
    platforms: ["darwin"],
    reason:
      "launchd limits the CPU and I/O of a job that is not Interactive; the engines that it starts inherit these limits",
    needs: ["service"],
    judge: ({ service: { found } }) => {
      if (found?.processType === undefined) return "notApplicable";
      return found.processType === "Interactive"
        ? []
        : [{ finding: `ProcessType of ${found.name} is ${found.processType}` }];
    },
  }),
  defineCheck({
    code: "ServiceKillsEngines",
    title: "engines outlive the agent",
    severity: "error",
    platforms: ["linux"],
    reason: "engines must keep serving while the agent restarts; stopping them loses every request in flight",
    needs: ["service"],
    judge: ({ service: { found } }) => {
      if (found === undefined) return "notApplicable";
      return found.endsEngines === undefined ? [] : [{ finding: `${found.name} has ${found.endsEngines}` }];
    },
  }),
  defineCheck({
    code: "FileLimitLow",
    title: "open files",
    severity: "warning",
    reason: "every request, watch and download is an open file of the agent, its gate or an engine",
    linuxCommand: "sudo systemctl edit metalbridge-agent  # [Service] LimitNOFILE=65536",
    needs: ["fileLimit"],
    judge: ({ fileLimit: { files, of } }) =>
      files >= FEWEST_FILES
        ? []
        : [{ finding: `${of} allows ${files} open files; ${FEWEST_FILES} are needed at least` }],
  }),
];
