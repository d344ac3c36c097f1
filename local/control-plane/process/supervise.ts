/** Keeps one component running: a crash is logged, and the component restarted with backoff. */
import { setTimeout as pause } from "node:timers/promises";
import type { Log } from "../../../src/util/ports.ts";
import { limitLogSize } from "../../log-size.ts";
import type { Component } from "../components/component.ts";
import { isDiskFull } from "../state/disk.ts";
import { type ChildExit, startWatched, type WatchedChild } from "./watched-child.ts";

export interface Supervised {
  readonly name: string;
  /** Number of exits without a request to stop. */
  readonly crashes: () => number;
  readonly lastEnd: () => ChildExit | undefined;
  /** Kills the process without warning, for tests. The supervisor restarts it. */
  readonly kill: () => void;
  readonly stop: () => Promise<void>;
}

const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 10_000;
/** After a run of this length, the backoff is reset. */
const HEALTHY_RUN_MS = 60_000;

type State =
  | { readonly at: "running"; readonly child: WatchedChild }
  | { readonly at: "pausing" }
  | { readonly at: "stopped" };

/** Starts the component at once. */
export function supervise(component: Component, log: Log): Supervised {
  const stopping = new AbortController();
  const { signal } = stopping;
  let state: State = { at: "pausing" };
  let crashes = 0;
  let lastEnd: ChildExit | undefined;

  const run = async () => {
    let pauseMs = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      const child = startWatched(component);
      state = { at: "running", child };
      const ended = await child.ended;
      if (signal.aborted) break;
      state = { at: "pausing" };
      crashes += 1;
      lastEnd = ended;
      pauseMs = ended.ranMs >= HEALTHY_RUN_MS ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, MAX_PAUSE_MS);
      log.warn(
        {
          part: component.name,
          code: ended.code,
          signal: ended.signal,
          restartInMs: pauseMs,
          log: component.logFile,
        },
        isDiskFull(component.logFile)
          ? "the disk is full: a part of the control plane exited; restarting it"
          : "a part of the control plane exited; restarting it",
      );
      await pause(pauseMs, undefined, { signal }).catch(() => {});
    }
    state = { at: "stopped" };
  };
  const finished = run();
  limitLogSize(component.logFile, signal);

  return {
    name: component.name,
    crashes: () => crashes,
    lastEnd: () => lastEnd,
    kill: () => {
      if (state.at === "running") state.child.signal("KILL");
    },
    stop: async () => {
      stopping.abort();
      if (state.at === "running") await state.child.stop();
      await finished;
    },
  };
}
