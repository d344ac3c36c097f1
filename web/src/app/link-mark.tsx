/** Shows how current the page is. */
import { useLink, useLive, useNow } from "../live/hooks.ts";
import { Hint } from "../parts/button.tsx";
import { formatDuration } from "../parts/format.ts";
import { text } from "../texts/text.ts";

export function LinkMark() {
  const live = useLive();
  const link = useLink();
  const nowMs = useNow();
  const age = "sinceMs" in link ? formatDuration(nowMs - link.sinceMs) : "";
  const word = {
    connecting: text.link.connecting,
    live: text.link.live,
    reconnecting: `${text.link.reconnecting} · ${age}`,
    away: `${text.link.away} · ${age}`,
    "signed-out": text.link.signedOut,
  }[link.at];
  const why = {
    connecting: text.link.liveWhy,
    live: text.link.liveWhy,
    reconnecting: `${text.link.reconnectingWhy(age, "why" in link ? link.why : "")} ${text.link.retry}.`,
    away: text.link.awayWhy(age),
    "signed-out": text.link.liveWhy,
  }[link.at];
  return (
    <Hint text={why}>
      <button
        type="button"
        className={`link-mark link-${link.at}`}
        onClick={() => live.reconnect()}
        aria-live="polite"
      >
        <span className="link-dot" aria-hidden />
        <span className="link-word">{word}</span>
      </button>
    </Hint>
  );
}
