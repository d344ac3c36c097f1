/** The configuration of Fluent Bit in docs/observability.md fits the files and lines that an agent writes. */
import { expect, test } from "vitest";
import { parse } from "yaml";
import { createJsonLog } from "../../cli/program/json-log.ts";
import { layoutFor } from "../../launchd/layout/layout.ts";
import { allPages } from "./pages.ts";

interface Configuration {
  readonly parsers: readonly {
    readonly name: string;
    readonly regex?: string;
    readonly time_format?: string;
  }[];
  readonly pipeline: {
    readonly inputs: readonly { readonly path: string; readonly parser?: string }[];
    readonly filters: readonly { readonly parser: string }[];
  };
}

const page = allPages().find(({ path }) => path === "docs/observability.md");
const block = page?.blocks.find(({ text }) => text.includes("fluent-bit"));
const { parsers, pipeline } = parse(block?.text ?? "") as Configuration;
const parserOf = ({ parser }: { readonly parser?: string } = {}) =>
  parsers.find(({ name }) => name === parser);
const [agent, engines] = pipeline.inputs;

test("its paths are those of a Mac that was installed as the docs say, without rotated files", () => {
  const layout = layoutFor({ platform: "darwin", scope: "system", root: "", home: "/Users/me", uid: 0 });
  expect(agent?.path).toBe(layout.agentLog);
  expect(engines?.path).toBe(`${layout.stateDir}/engines/*/log`);
});

test("it parses the lines of an agent, and takes the engine's uid from the path of its log", () => {
  let line = "";
  createJsonLog("info", { host: "mac-1" }, { write: (text) => (line = text) }).info({ uid: "u" }, "started");
  const time = parserOf(agent)
    ?.time_format?.replace("%Y-%m-%dT", "\\d{4}-\\d\\d-\\d\\dT")
    .replace("%H:%M:%S.%LZ", "\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z");
  expect(JSON.parse(line)).toMatchObject({
    time: expect.stringMatching(new RegExp(`^${time}$`)),
    host: "mac-1",
    uid: "u",
    msg: "started",
  });
  const uid = "45b88bbb-ccac-4d07-8f12-7b0643795b8e";
  const found = new RegExp(parserOf(pipeline.filters[0])?.regex ?? "").exec(
    engines?.path.replace("*", uid) ?? "",
  );
  expect(found?.groups).toEqual({ uid });
});
