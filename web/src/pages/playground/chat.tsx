/** Chat with a service. */
import { Code, Eraser, SlidersHorizontal } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useSearchParam } from "../../address/search.ts";
import { Button } from "../../parts/buttons.tsx";
import { Dialog } from "../../parts/dialogs.tsx";
import { useMedia } from "../../parts/table/table.tsx";
import { CodeDialog } from "./code.tsx";
import { Composer } from "./composer.tsx";
import { type Conversation, changeConversation, clear, useConversation } from "./conversation.ts";
import { canAsk, type Offer } from "./offers.ts";
import { Picker } from "./picker.tsx";
import { chatBody, isInvalid, LIMITS, type Parameters } from "./request.ts";
import { Turns } from "./turns.tsx";

/** Room for the parameters beside the conversation. */
const WIDE = "(min-width: 1200px)";
const NUMBERS = [
  ["temperature", "Temperature"],
  ["topP", "Top P"],
  ["maxTokens", "Maximum tokens"],
  ["seed", "Seed"],
] as const;

export function ChatTab({ offers }: { readonly offers: readonly Offer[] }) {
  const conversation = useConversation();
  const { service, turns, parameters } = conversation;
  const isWide = useMedia(WIDE);
  useChosenService(offers, service);
  useFollowedEnd(turns);
  const offer = offers.find((one) => one.service === service);
  return (
    <div className={isWide ? "chat chat-wide" : "chat"}>
      <div className="chat-main">
        <Bar conversation={conversation} hasParameters={!isWide} />
        <section className="stack gap-16 conversation" aria-label={service}>
          <Picker
            offers={offers}
            value={service}
            onChange={(chosen) => changeConversation({ service: chosen })}
          />
          {turns.length === 0 ? (
            <div className="conversation-empty">
              <h2>Say something</h2>
              <p className="muted">The answer streams in, with its time to the first token and its speed.</p>
            </div>
          ) : (
            <Turns turns={turns} isIdle={offer?.state === "idle"} />
          )}
        </section>
        <Composer conversation={conversation} offer={offer} />
      </div>
      {isWide && (
        <aside className="stack chat-aside" aria-label="Parameters">
          <h2>Parameters</h2>
          <ParameterFields parameters={parameters} />
        </aside>
      )}
    </div>
  );
}

/** The service of the address first; else the first that is ready. */
function useChosenService(offers: readonly Offer[], service: string): void {
  const [requested, setRequested] = useSearchParam("service");
  useEffect(() => {
    const chosen = requested === "" && service === "" ? offers.find(canAsk)?.service : requested;
    if (chosen !== undefined && chosen !== "") changeConversation({ service: chosen });
    if (requested !== "") setRequested("");
  }, [offers, service, requested, setRequested]);
}

function Bar({
  conversation: { service, turns, draft, images, parameters },
  hasParameters,
}: {
  readonly conversation: Conversation;
  readonly hasParameters: boolean;
}) {
  const [open, setOpen] = useState<"code" | "parameters">();
  // Without a draft, the request that gave the last answer.
  const lastQuestion = turns.findLastIndex(({ role }) => role === "user");
  const coded =
    draft === "" && lastQuestion !== -1
      ? turns.slice(0, lastQuestion + 1)
      : [...turns, { role: "user", id: 0, text: draft, images } as const];
  return (
    <div className="row chat-bar">
      <Button look="quiet" icon={<Code size={14} aria-hidden />} onClick={() => setOpen("code")}>
        Code
      </Button>
      {hasParameters && (
        <Button
          look="quiet"
          icon={<SlidersHorizontal size={14} aria-hidden />}
          onClick={() => setOpen("parameters")}
        >
          Parameters
        </Button>
      )}
      <Button
        look="quiet"
        icon={<Eraser size={14} aria-hidden />}
        disabled={turns.length === 0}
        onClick={clear}
      >
        Clear
      </Button>
      {open === "code" && (
        <CodeDialog
          request={{ path: "/v1/chat/completions", body: chatBody(service, coded, parameters) }}
          onClose={() => setOpen(undefined)}
        />
      )}
      <Dialog title="Parameters" isOpen={open === "parameters"} onClose={() => setOpen(undefined)}>
        <ParameterFields parameters={parameters} />
      </Dialog>
    </div>
  );
}

function ParameterFields({ parameters }: { readonly parameters: Parameters }) {
  const change = (changes: Partial<Parameters>): void =>
    changeConversation({ parameters: { ...parameters, ...changes } });
  return (
    <div className="stack">
      <label className="field">
        <span>System prompt</span>
        <textarea
          rows={4}
          value={parameters.system}
          onChange={({ target }) => change({ system: target.value })}
        />
      </label>
      <div className="halves">
        {NUMBERS.map(([name, label]) => {
          const isWrong = isInvalid(name, parameters[name]);
          return (
            <label key={name} className="field">
              <span>{label}</span>
              <input
                inputMode="decimal"
                placeholder="default"
                value={parameters[name]}
                aria-invalid={isWrong}
                onChange={({ target }) => change({ [name]: target.value })}
              />
              {isWrong && <span className="field-error">{`${LIMITS[name].min} to ${LIMITS[name].max}`}</span>}
            </label>
          );
        })}
      </div>
      <label className="row">
        <input
          type="checkbox"
          checked={parameters.isJson}
          onChange={({ target }) => change({ isJson: target.checked })}
        />
        Answer in JSON
      </label>
    </div>
  );
}

/** A reader who has scrolled up more than this reads something else. */
const NEAR_PX = 160;

/** Keeps the end in view while an answer is written, unless the reader has scrolled away from it. */
function useFollowedEnd(turns: readonly unknown[]): void {
  const count = useRef(turns.length);
  const height = useRef(Number.POSITIVE_INFINITY);
  useLayoutEffect(() => {
    const frame = document.getElementById("content");
    if (frame === null) return;
    const isNew = count.current !== turns.length;
    count.current = turns.length;
    // Before this change, which may have added a whole form.
    const wasNear = height.current - frame.scrollTop - frame.clientHeight < NEAR_PX;
    height.current = frame.scrollHeight;
    if (isNew || wasNear) frame.scrollTop = frame.scrollHeight;
  }, [turns]);
}
