/** `metalbridge demo`, which `npm start` runs: everything on this machine, to a real answer from a model. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { DEMO_ENGINES } from "../local/demo/engine.ts";
import { type DemoOptions, parseDemoOptions } from "../local/demo/options.ts";
import { type DemoResult, type RunningDemo, runDemo } from "../local/demo/run.ts";
import { createDemoScreen } from "../local/demo/screen.ts";
import { shellWord } from "../local/shell-word.ts";
import { writeOut } from "./program/output.ts";
import { failureFields } from "./program/report.ts";
import { listenForStop, whenAborted } from "./program/stop-signals.ts";

/** Options and action of the verb. */
export function configureDemo(command: Command): void {
  command
    .option("--dir <folder>", "state folder; a later start restores its services", ".metalbridge")
    .option(
      "--model <source>",
      "a GGUF file: hf://org/repo/file, https://…, or a path (default: a tiny generated model)",
    )
    .addOption(
      new Option("--engine <name>", "engine to serve it with, which is installed here")
        .choices(DEMO_ENGINES)
        .default(DEMO_ENGINES[0]),
    )
    .option("--prompt <text>", "prompt to send to the model")
    .option(
      "--address <ip>",
      "address of this machine that engines listen on (default: the first usable one)",
    )
    .option(
      "--timeout-seconds <n>",
      "how long to wait for the service to become ready (default: 900)",
      parseSeconds,
    )
    .option("--once", "stop everything after the first answer")
    .addOption(
      new Option("--output <format>", "json: print one JSON object to standard output, also on failure")
        .choices(["text", "json"])
        .default("text"),
    )
    .action(async (options: unknown) => demo(parseDemoOptions(options)));
}

async function demo(options: DemoOptions): Promise<void> {
  const stop = listenForStop();
  // With JSON asked for, standard output holds the one line and nothing else.
  const stream = options.output === "json" ? process.stderr : process.stdout;
  const screen = createDemoScreen({ stream, isTerminal: stream.isTTY === true });
  let running: RunningDemo;
  try {
    running = await runDemo(options, { screen, signal: stop.signal, requestStop: stop.stop });
  } catch (error) {
    if (options.output === "json") printFailure(error, stop.signal.aborted);
    if (!stop.signal.aborted) throw error;
    process.exitCode = stop.exitCode(); // stopped while starting: nothing is left running, and it is no failure
    return;
  }
  const { result, system } = running;
  screen.line(`\n  ${options.prompt}\n  > ${result.reply.replaceAll("\n", "\n  > ")}\n`);
  let failure: unknown;
  try {
    if (!options.once) {
      screen.line(nextSteps(result, system.kubeconfig, options.dir));
      await Promise.race([whenAborted(stop.signal), system.partFailed]);
      screen.line("stopping engines, agent, controller and control plane");
    }
  } catch (error) {
    failure = error;
  }
  await system.stop();
  if (failure !== undefined) {
    if (options.output === "json") printFailure(failure, false);
    throw failure;
  }
  if (options.output === "json") writeOut(`${JSON.stringify(result)}\n`);
  process.exitCode = stop.exitCode();
}

/** Whoever reads standard output as JSON gets one object in every case; the text for people is on standard error. */
function printFailure(error: unknown, isStopped: boolean): void {
  const result = isStopped ? { ready: false, stopped: true } : { ready: false, error: failureFields(error) };
  writeOut(`${JSON.stringify(result)}\n`);
}

function nextSteps(result: DemoResult, kubeconfig: string, dir: string): string {
  return `  In another terminal:
    export KUBECONFIG=${shellWord(kubeconfig)}

  Try next:
    kubectl get mdl,isvc,irep,mbhost          # or: npx metalbridge status
    curl ${result.endpoint}/v1/chat/completions -d '{"messages":[{"role":"user","content":"Hello"}],"max_tokens":32}'
    kubectl scale isvc/quickstart --replicas 2; kubectl get irep -w
    npx metalbridge chat quickstart           # also: logs quickstart, describe quickstart, models list
    npx metalbridge deploy Qwen/Qwen3-0.6B    # any model of: npx metalbridge catalog list

  Logs of controller and agent are in ${dir}/logs. Ctrl-C stops everything; npm start brings it back.`;
}

function parseSeconds(text: string): number {
  const seconds = Number(text);
  if (!Number.isInteger(seconds) || seconds < 5 || seconds > 86_400)
    throw new InvalidArgumentError("It has to be a whole number from 5 to 86400.");
  return seconds;
}
