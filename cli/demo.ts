/** `metalbridge demo`, which `npm start` runs: starts everything on this machine, and asks a model a question. */

import { resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { DEMO_ENGINES } from "../local/demo/engine.ts";
import { type DemoOptions, type DemoResult, type RunningDemo, runDemo } from "../local/demo/run.ts";
import { createDemoScreen } from "../local/demo/screen.ts";
import { shellWord } from "../local/shell-word.ts";
import { FAKE_IP_NETWORK } from "../src/models/source/networks.ts";
import { countParser, userJwtSecretFileOption } from "./cluster/flags.ts";
import { printLine } from "./program/output.ts";
import { failureFields } from "./program/report.ts";
import { listenForStop, whenAborted } from "./program/stop-signals.ts";

/** Options and action of the verb. */
export function configureDemo(command: Command): void {
  command
    .option("--dir <folder>", "state folder; a later start restores the services", nonEmpty, ".metalbridge")
    .option(
      "--model <source>",
      "GGUF file: hf://org/repo/file, https://…, or a path (default: a tiny generated model)",
      nonEmpty,
    )
    .addOption(
      new Option("--engine <name>", "installed engine that serves the model")
        .choices(DEMO_ENGINES)
        .default(DEMO_ENGINES[0]),
    )
    .option("--prompt <text>", "prompt to send to the model", nonEmpty, "Tell me something about the sea.")
    .option(
      "--address <ip>",
      "address of this machine that engines listen on (default: the first usable address)",
    )
    .option(
      "--timeout-seconds <n>",
      "time limit for the service to become Ready",
      countParser(5, 86_400),
      900,
    )
    .option(
      "--allow-networks <cidrs>",
      "allow model sources in these private networks, separated by commas; the default is that of proxies with fake IP addresses",
      FAKE_IP_NETWORK,
    )
    .addOption(userJwtSecretFileOption())
    .option("--once", "stop everything after the first answer")
    .addOption(
      new Option("--output <format>", "output format; json prints one JSON object, also on failure")
        .choices(["text", "json"])
        .default("text"),
    )
    .action((options: DemoOptions) => demo({ ...options, dir: resolve(options.dir) }));
}

function nonEmpty(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("It must not be empty.");
}

async function demo(options: DemoOptions): Promise<void> {
  const stop = listenForStop();
  // With --output json, standard output has exactly one line.
  const stream = options.output === "json" ? process.stderr : process.stdout;
  const screen = createDemoScreen({ stream, isTerminal: stream.isTTY === true });
  let running: RunningDemo;
  try {
    running = await runDemo(options, { screen, signal: stop.signal, requestStop: stop.stop });
  } catch (error) {
    if (options.output === "json") printFailure(error, stop.signal.aborted);
    if (!stop.signal.aborted) throw error;
    // A stop during the start is not a failure: nothing is left running.
    process.exitCode = stop.exitCode();
    return;
  }
  const { result, system } = running;
  const { reply } = result;
  if (reply !== undefined) screen.line(`\n  ${options.prompt}\n  > ${reply.replaceAll("\n", "\n  > ")}\n`);
  let failure: unknown;
  try {
    if (!options.once) {
      screen.line(nextSteps(result, system.kubeconfig, options.dir));
      const address = await Promise.race([system.startConsole(), system.partFailed]);
      if (address !== undefined) screen.line(`\n  The console, to open in a browser: ${address}`);
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
  if (options.output === "json") printLine(JSON.stringify(resultFields(result)));
  process.exitCode = stop.exitCode();
}

/** A client that reads standard output as JSON gets one object in every case. The text for users is on standard error. */
function printFailure(error: unknown, isStopped: boolean): void {
  const result = isStopped ? { ready: false, stopped: true } : { ready: false, error: failureFields(error) };
  printLine(JSON.stringify(result));
}

function resultFields({ error, ...result }: DemoResult): Readonly<Record<string, unknown>> {
  return error === undefined ? result : { ...result, error: failureFields(error) };
}

function nextSteps(result: DemoResult, kubeconfig: string, dir: string): string {
  const url = result.baseUrl ?? (result.endpoint && `${result.endpoint}/v1`);
  const key = result.needsKey === true ? ` -H "authorization: Bearer $KEY"` : "";
  const request = `  One base URL for all models, with OpenAI's and Anthropic's APIs: ${url}
    curl ${url}/chat/completions${key} -H 'content-type: application/json' \\
      -d '{"model":"quickstart","messages":[{"role":"user","content":"Hello"}],"max_tokens":32}'
    curl ${url}/models${key}

`;
  return `${url === undefined ? "" : request}  In another terminal:
    export KUBECONFIG=${shellWord(kubeconfig)}

  Try next:
    kubectl get mdl,isvc,irep,mbhost          # or: npx metalbridge status
    kubectl scale isvc/quickstart --replicas 2; kubectl get irep -w
    npx metalbridge chat quickstart           # also: logs quickstart, describe quickstart, models list
    npx metalbridge deploy Qwen/Qwen3-0.6B    # any model of: npx metalbridge catalog list

  Logs of controller, agent, gateway and console are in ${dir}/logs. Ctrl-C stops everything; npm start starts it again.`;
}
