/** The lines of a log, of which only those in view are in the page. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef } from "react";
import type { LogLine } from "../../../../../src/console/protocol.ts";
import type { LogRing } from "./ring.ts";

const LINE_PX = 20;
const OVERSCAN = 20;
/** Closer to the end than this follows. */
const END_PX = 40;

export interface LogLinesProps {
  readonly ring: LogRing;
  readonly isWrapped: boolean;
  readonly hasReplica: boolean;
  readonly isFollowing: boolean;
  readonly onFollow: (isFollowing: boolean) => void;
}

export function LogLines({ ring, isWrapped, hasReplica, isFollowing, onFollow }: LogLinesProps) {
  const frame = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer({
    count: ring.length,
    getScrollElement: () => frame.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
    getItemKey: useCallback((index: number) => ring.dropped + index, [ring.dropped]),
  });
  const { length, dropped } = ring;
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines move the end
  useEffect(() => {
    if (isFollowing && length > 0) virtualizer.scrollToIndex(length - 1, { align: "end" });
  }, [isFollowing, length, dropped, isWrapped]);
  useKeepPlace(frame, ring, isFollowing);
  const onScroll = (): void => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = frame.current ?? {};
    const isAtEnd = scrollHeight - scrollTop - clientHeight < END_PX;
    if (!isAtEnd && isFollowing && wasByReader.current) onFollow(false);
    if (isAtEnd && !isFollowing) onFollow(true);
  };
  const wasByReader = useRef(false);
  const byReader = (): void => {
    wasByReader.current = true;
    setTimeout(() => {
      wasByReader.current = false;
    }, 400);
  };
  return (
    <div
      ref={frame}
      className={isWrapped ? "log log-wrapped" : "log"}
      role="log"
      aria-label="Logs"
      aria-live="off"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by the keyboard
      tabIndex={0}
      onScroll={onScroll}
      onWheel={byReader}
      onTouchMove={byReader}
      onPointerDown={byReader}
      onKeyDown={byReader}
    >
      <div style={{ height: virtualizer.getTotalSize() }} className="log-all">
        {virtualizer.getVirtualItems().map(({ index, key, start }) => (
          <Line
            key={key}
            line={ring.at(index)}
            hasReplica={hasReplica}
            index={index}
            start={start}
            measure={isWrapped ? virtualizer.measureElement : undefined}
          />
        ))}
      </div>
    </div>
  );
}

/** Lines that drop out at the top must not move those that are read. */
function useKeepPlace(
  frame: { readonly current: HTMLDivElement | null },
  ring: LogRing,
  isFollowing: boolean,
): void {
  const before = useRef({ ring, dropped: ring.dropped });
  const { dropped } = ring;
  useLayoutEffect(() => {
    const gone = before.current.ring === ring ? dropped - before.current.dropped : 0;
    before.current = { ring, dropped };
    if (gone > 0 && !isFollowing && frame.current !== null) frame.current.scrollTop -= gone * LINE_PX;
  }, [frame, ring, dropped, isFollowing]);
}

function Line({
  line: { at, line, replica, isNote },
  hasReplica,
  index,
  start,
  measure,
}: {
  readonly line: LogLine;
  readonly hasReplica: boolean;
  readonly index: number;
  readonly start: number;
  readonly measure: ((element: HTMLElement | null) => void) | undefined;
}) {
  return (
    <div
      ref={measure}
      data-index={index}
      className={isNote === true ? "log-line log-note" : "log-line"}
      style={{ transform: `translateY(${start}px)` }}
    >
      {at !== undefined && <span className="log-at">{at.slice(11, 23)}</span>}
      {hasReplica && <span className="log-replica">{replica}</span>}
      <bdi>{line}</bdi>
    </div>
  );
}
