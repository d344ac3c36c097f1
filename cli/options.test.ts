/** Values of options that commander checks before a verb runs. */
import { Command } from "commander";
import { expect, test } from "vitest";
import { parseControllerConfig } from "../controller/config.ts";
import { controllerFlags } from "../local/demo/system.ts";
import { configureAgent } from "./agent.ts";
import { configureController } from "./controller.ts";
import { configureDemo } from "./demo.ts";

/** Parses without running the verb; throws for a refused value. */
function parse(configure: (command: Command) => void, ...args: readonly string[]) {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  configure(command);
  command.parseOptions([...args]);
  return command.opts();
}

test("metalbridge agent accepts each log level of its configuration file", () => {
  for (const logLevel of ["trace", "debug", "info", "warn", "error", "silent"])
    expect(parse(configureAgent, "--log-level", logLevel)).toMatchObject({ logLevel });
  expect(() => parse(configureAgent, "--log-level", "loud")).toThrow(/Allowed choices are trace, debug/);
});

test.each(["dir", "model", "prompt"])("metalbridge demo refuses an empty --%s", (option) => {
  expect(() => parse(configureDemo, `--${option}`, "")).toThrow(/must not be empty/);
});

test.each<[what: string, given: readonly string[], networks: readonly string[]]>([
  ["sources behind a proxy with fake IP addresses", [], ["198.18.0.0/15"]],
  ["the given networks", ["--allow-networks", "10.0.0.0/8,fd00::/8"], ["10.0.0.0/8", "fd00::/8"]],
])("the controller of metalbridge demo allows %s", (_, given, networks) => {
  const { allowNetworks } = parse(configureDemo, ...given);
  const flags = parse(configureController, ...controllerFlags({ allowNetworks }));
  expect(parseControllerConfig({ allowNetworks: flags.allowNetworks }).allowNetworks).toEqual(networks);
});
