/** The log of all replicas or of one, followed, filtered by the server. */

import { Check, Copy, Download, WrapText } from "lucide-react";
import { useCallback, useDeferredValue, useEffect, useRef, useState } from "react";
import { CONSOLE_PATH } from "../../../../../src/console/protocol.ts";
import { ConsoleError, request } from "../../../api/request.ts";
import { Button, IconButton, saveFile } from "../../../parts/buttons.tsx";
import { useDebounced } from "../../../parts/fields.tsx";
import { Failure } from "../../../parts/notices.tsx";
import type { ServiceObjects } from "../objects.ts";
import { LogLines } from "./lines.tsx";
import { createLineSplitter, LogRing, MAX_LINES } from "./ring.ts";

const TAILS = [1_000, 10_000, MAX_LINES] as const;
const TYPING_MS = 300;

export function LogsTab({ objects }: { readonly objects: ServiceObjects }) {
  const { namespace = "default", name } = objects.service.metadata;
  const replicas = [...objects.replicas, ...objects.pods].map(({ metadata }) => metadata.name);
  const [replica, setReplica] = useState("");
  const [words, setWords] = useState("");
  const [tail, setTail] = useState<number>(TAILS[0]);
  const [isWrapped, setIsWrapped] = useState(false);
  const [isFollowing, setIsFollowing] = useState(true);
  const filter = useDeferredValue(useDebounced(words, TYPING_MS));
  const logs = useLogs({ namespace, service: name, replica, filter, tail });
  const hasReplica = replica === "" && replicas.length > 1;
  return (
    <div className="stack logs">
      <div className="row">
        <input
          className="log-filter"
          type="search"
          aria-label="Filter the log"
          placeholder="Filter the log"
          title="A text, or a regular expression between slashes such as /error|warn/i"
          value={words}
          maxLength={500}
          onChange={({ target }) => setWords(target.value)}
        />
        <select
          className="log-select"
          aria-label="Replica"
          value={replica}
          onChange={({ target }) => setReplica(target.value)}
        >
          <option value="">All replicas</option>
          {replicas.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        <select
          className="log-select"
          aria-label="Lines from the end"
          value={tail}
          onChange={({ target }) => setTail(Number(target.value))}
        >
          {TAILS.map((count) => (
            <option key={count} value={count}>
              {`Last ${count.toLocaleString("en-US")} lines`}
            </option>
          ))}
        </select>
        <Button aria-pressed={isFollowing} onClick={() => setIsFollowing(!isFollowing)}>
          {isFollowing ? "Pause" : "Follow"}
        </Button>
        <Tools
          logs={logs}
          name={name}
          hasReplica={hasReplica}
          isWrapped={isWrapped}
          onWrap={() => setIsWrapped(!isWrapped)}
        />
        <span className="muted small number">{`${logs.ring.length.toLocaleString("en-US")} lines`}</span>
      </div>
      {logs.error !== undefined && <Failure error={logs.error} onRetry={logs.readAgain} />}
      {logs.at === "ended" && (
        <div className="row small muted">
          The log is complete.
          <Button look="quiet" onClick={logs.readAgain}>
            Read again
          </Button>
        </div>
      )}
      {(logs.error === undefined || logs.ring.length > 0) && (
        <LogLines
          key={isWrapped ? "wrapped" : "plain"}
          ring={logs.ring}
          isWrapped={isWrapped}
          hasReplica={hasReplica}
          isFollowing={isFollowing}
          onFollow={setIsFollowing}
        />
      )}
    </div>
  );
}

interface ToolsProps {
  readonly logs: Logs;
  readonly name: string;
  readonly hasReplica: boolean;
  readonly isWrapped: boolean;
  readonly onWrap: () => void;
}

function Tools({ logs: { ring }, name, hasReplica, isWrapped, onWrap }: ToolsProps) {
  return (
    <>
      <IconButton label="Wrap long lines" aria-pressed={isWrapped} onClick={onWrap}>
        {isWrapped ? <Check size={16} aria-hidden /> : <WrapText size={16} aria-hidden />}
      </IconButton>
      <IconButton
        label="Copy the log"
        onClick={() => void navigator.clipboard.writeText(ring.text(hasReplica))}
      >
        <Copy size={16} aria-hidden />
      </IconButton>
      <IconButton
        label="Download the log"
        onClick={() => saveFile(`${name}.log`, "text/plain", ring.text(hasReplica))}
      >
        <Download size={16} aria-hidden />
      </IconButton>
    </>
  );
}

interface LogQuestion {
  readonly namespace: string;
  readonly service: string;
  /** Empty for all. */
  readonly replica: string;
  /** A text, or a regular expression between slashes. Applied by the server. */
  readonly filter: string;
  readonly tail: number;
}

interface Logs {
  readonly ring: LogRing;
  readonly at: "reading" | "ended" | "failed";
  readonly error: Error | undefined;
  readonly readAgain: () => void;
}

/** A busy log changes the page at most this often. */
const SHOW_MS = 100;

/** Reads the log of a service as long as the tab is open. */
function useLogs({ namespace, service, replica, filter, tail }: LogQuestion): Logs {
  const ring = useRef(new LogRing());
  const [, setShown] = useState(0);
  const [end, setEnd] = useState<{ readonly at: "ended" | "failed"; readonly error?: Error }>();
  const [attempt, setAttempt] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt reads again
  useEffect(() => {
    const abort = new AbortController();
    const mine = new LogRing();
    ring.current = mine;
    setEnd(undefined);
    setShown((count) => count + 1);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        setShown((count) => count + 1);
      }, SHOW_MS);
    };
    const search = new URLSearchParams({ namespace, service, filter, tail: String(tail), follow: "true" });
    if (replica !== "") search.set("replica", replica);
    void readLines(`${CONSOLE_PATH}/logs?${search}`, abort.signal, (lines) => {
      mine.push(lines);
      show();
    })
      .then(() => setEnd({ at: "ended" }))
      .catch((error: Error) => {
        if (!abort.signal.aborted) setEnd({ at: "failed", error });
      });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [namespace, service, replica, filter, tail, attempt]);
  return {
    ring: ring.current,
    at: end?.at ?? "reading",
    error: end?.error,
    readAgain: useCallback(() => setAttempt((count) => count + 1), []),
  };
}

async function readLines(
  path: string,
  signal: AbortSignal,
  onLines: (lines: readonly string[]) => void,
): Promise<void> {
  const answer = await request(path, { signal });
  if (answer.body === null) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const split = createLineSplitter();
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      if (signal.aborted) return { done: true, value: undefined } as const;
      throw new ConsoleError("LogInterrupted", "The connection was lost while the log was read.");
    });
    if (done) return;
    onLines(split(value));
  }
}
