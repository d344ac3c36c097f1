/** The agent's launchd job. Pure. docs/install-a-mac.md explains the keys to users. */
import { LAUNCHD_LABEL } from "../../src/api/group.ts";
import { agentCommand, agentPath, stopSeconds } from "../layout/agent-command.ts";
import type { InstallLayout } from "../layout/layout.ts";

/** Minimum time between two starts. It alone slows a crash loop, because launchd does not limit the number of starts. */
const THROTTLE_SECONDS = 10;
const MAX_FILES = 65_536;

export function renderAgentPlist(layout: InstallLayout, drainSeconds: number): string {
  const { account, scope, crashLog, stateDir } = layout;
  return renderPlistXml({
    Label: LAUNCHD_LABEL,
    ...(account === undefined ? {} : { UserName: account }),
    ProgramArguments: agentCommand(layout),
    // Values must be strings. launchd's default PATH lacks the folders of Homebrew.
    EnvironmentVariables: { PATH: agentPath, ...(scope === "system" ? { HOME: stateDir } : {}) },
    WorkingDirectory: "/",
    RunAtLoad: true,
    KeepAlive: true,
    ThrottleInterval: THROTTLE_SECONDS,
    // Without it, launchd throttles CPU and I/O of the agent and its engines.
    ProcessType: "Interactive",
    // Without it, launchd kills the engines in the job's process group when the agent exits.
    AbandonProcessGroup: true,
    // 0 would wait without a limit.
    ExitTimeOut: stopSeconds(drainSeconds),
    // A string is read as octal, an integer as decimal.
    Umask: "077",
    // Not for a daemon, whose value also becomes the sysctl kern.maxfiles of the whole Mac and may lower it. Node raises its
    // limit to the hard limit at start, and engines inherit that limit.
    ...(scope === "user" ? { SoftResourceLimits: { NumberOfFiles: MAX_FILES } } : {}),
    // launchd appends to this file and never rotates it, so it is only for the output of a crash.
    ...(crashLog === undefined ? {} : { StandardOutPath: crashLog, StandardErrorPath: crashLog }),
  });
}

type PlistValue = string | number | boolean | readonly PlistValue[] | PlistDict;

interface PlistDict {
  readonly [key: string]: PlistValue;
}

/** Throws for characters that XML 1.0 does not allow and for numbers that are not integers: launchd rejects both without a reason. */
export function renderPlistXml(dict: PlistDict): string {
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    ...linesOf(dict, ""),
    "</plist>",
    "",
  ].join("\n");
}

function linesOf(value: PlistValue, indent: string): readonly string[] {
  if (typeof value === "string") return [`${indent}<string>${escapeText(value)}</string>`];
  if (typeof value === "boolean") return [`${indent}<${value}/>`];
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) throw new TypeError(`${value} is not an integer`);
    return [`${indent}<integer>${value}</integer>`];
  }
  if (isList(value))
    return wrap(
      "array",
      value.flatMap((item) => linesOf(item, `${indent}\t`)),
      indent,
    );
  const entries = Object.entries(value).flatMap(([key, inner]) => [
    `${indent}\t<key>${escapeText(key)}</key>`,
    ...linesOf(inner, `${indent}\t`),
  ]);
  return wrap("dict", entries, indent);
}

function isList(value: PlistValue): value is readonly PlistValue[] {
  return Array.isArray(value);
}

function wrap(tag: string, inner: readonly string[], indent: string): readonly string[] {
  return inner.length === 0 ? [`${indent}<${tag}/>`] : [`${indent}<${tag}>`, ...inner, `${indent}</${tag}>`];
}

function escapeText(text: string): string {
  const forbidden = [...text].find(
    (character) => character < " " || character === "\u{FFFE}" || character === "\u{FFFF}",
  );
  if (forbidden !== undefined || !text.isWellFormed())
    throw new TypeError(`${JSON.stringify(text)} has a character that a property list cannot hold`);
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
