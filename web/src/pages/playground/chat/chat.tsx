/** Chat with one service, or with two side by side. */
import { Code, Columns2, Eraser, SlidersHorizontal } from "lucide-react";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useSearchParam } from "../../../address/search.ts";
import { Button } from "../../../parts/button.tsx";
import { Dialog } from "../../../parts/dialog.tsx";
import { Segments } from "../../../parts/segments.tsx";
import { useMedia } from "../../../parts/table.tsx";
import { texts } from "../../../texts/playground.ts";
import { canAsk, type Offer } from "../services/offers.ts";
import { Picker } from "../services/picker.tsx";
import { chatBody, type UserTurn } from "./body.ts";
import { CodeDialog } from "./code-dialog.tsx";
import { Composer } from "./composer.tsx";
import { ParameterFields } from "./parameters.tsx";
import { type Chat, changeChat, chooseService, clear, isBusy, type Side, sidesOf, useChat } from "./store.ts";
import { Turns } from "./turns.tsx";
import { useBlindness } from "./use-sight.ts";
import "./chat.css";

/** Room for the parameters beside the conversation. */
const WIDE = "(min-width: 1200px)";
const PHONE = "(max-width: 640px)";

export function ChatTab({ offers }: { readonly offers: readonly Offer[] }) {
  const chat = useChat();
  const isWide = useMedia(WIDE);
  useChosenServices(offers, chat);
  const sides = sidesOf(chat);
  const chosen = sides.map((side) => offers.find(({ service }) => service === chat.panes[side].service));
  const blindness = [useBlindness(chosen[0]), useBlindness(chat.isComparing ? chosen[1] : chosen[0])];
  const busy = sides.some((side) => isBusy(chat.panes[side]));
  return (
    <div className={isWide ? "chat chat-wide" : "chat"}>
      <div className="chat-main">
        <Bar chat={chat} hasParameters={!isWide} />
        <Panes chat={chat} offers={offers} />
        <Composer
          draft={chat.draft}
          images={chat.images}
          isBusy={busy}
          canSend={chosen.every((offer) => offer !== undefined && canAsk(offer))}
          whyBlind={blindness.find((why) => why !== undefined)}
        />
      </div>
      {isWide && (
        <aside className="chat-aside" aria-label={texts.parameters}>
          <h2>{texts.parameters}</h2>
          <ParameterFields parameters={chat.parameters} />
        </aside>
      )}
    </div>
  );
}

/** The service of the address first; else the first that is ready. */
function useChosenServices(offers: readonly Offer[], { panes, isComparing }: Chat): void {
  const [asked, setAsked] = useSearchParam("service");
  const [left, right] = panes;
  useEffect(() => {
    if (asked === "") return;
    chooseService(0, asked);
    setAsked("");
  }, [asked, setAsked]);
  useEffect(() => {
    const askable = offers.filter(canAsk).map(({ service }) => service);
    if (left.service === "" && askable[0] !== undefined && asked === "") chooseService(0, askable[0]);
    if (!isComparing || right.service !== "") return;
    const other = askable.find((service) => service !== left.service) ?? askable[0];
    if (other !== undefined) chooseService(1, other);
  }, [offers, left.service, right.service, isComparing, asked]);
}

function Bar({ chat, hasParameters }: { readonly chat: Chat; readonly hasParameters: boolean }) {
  const [open, setOpen] = useState<"code" | "parameters">();
  const [pane] = chat.panes;
  const draft: UserTurn = { role: "user", id: 0, text: chat.draft, images: chat.images };
  const turns = chat.draft === "" && pane.turns.length > 0 ? questionsOf(pane.turns) : [...pane.turns, draft];
  return (
    <div className="row chat-bar">
      <Button
        look="quiet"
        icon={<Columns2 size={14} aria-hidden />}
        aria-pressed={chat.isComparing}
        onClick={() => changeChat({ isComparing: !chat.isComparing })}
      >
        {texts.compare}
      </Button>
      <Button look="quiet" icon={<Code size={14} aria-hidden />} onClick={() => setOpen("code")}>
        {texts.showCode}
      </Button>
      {hasParameters && (
        <Button
          look="quiet"
          icon={<SlidersHorizontal size={14} aria-hidden />}
          onClick={() => setOpen("parameters")}
        >
          {texts.parameters}
        </Button>
      )}
      <Button
        look="quiet"
        icon={<Eraser size={14} aria-hidden />}
        disabled={chat.panes.every(({ turns: all }) => all.length === 0)}
        onClick={clear}
      >
        {texts.clear}
      </Button>
      {open === "code" && (
        <CodeDialog
          request={{ path: "/v1/chat/completions", body: chatBody(pane.service, turns, chat.parameters) }}
          onClose={() => setOpen(undefined)}
        />
      )}
      <Dialog title={texts.parameters} isOpen={open === "parameters"} onClose={() => setOpen(undefined)}>
        <ParameterFields parameters={chat.parameters} />
      </Dialog>
    </div>
  );
}

/** Up to the last question: the request that gave the last answer. */
function questionsOf(turns: Chat["panes"][0]["turns"]): Chat["panes"][0]["turns"] {
  return turns.slice(0, turns.findLastIndex(({ role }) => role === "user") + 1);
}

function Panes({ chat, offers }: { readonly chat: Chat; readonly offers: readonly Offer[] }) {
  const isPhone = useMedia(PHONE);
  const [shown, setShown] = useState<Side>(0);
  const all = sidesOf(chat);
  const sides = isPhone && all.length > 1 ? [shown] : all;
  const choice = isPhone && all.length > 1 && (
    <Segments
      label={texts.compare}
      value={String(shown)}
      options={all.map((side) => ({ id: String(side), label: nameOf(chat.panes[side].service) }))}
      onChange={(id) => setShown(id === "1" ? 1 : 0)}
    />
  );
  return (
    <>
      {choice}
      <div className="panes" data-count={sides.length}>
        {sides.map((side) => (
          <PaneView key={side} side={side} chat={chat} offers={offers} />
        ))}
      </div>
    </>
  );
}

function nameOf(service: string): string {
  return service === "" ? texts.picker.choose : service.slice(service.indexOf("/") + 1);
}

function PaneView({
  side,
  chat,
  offers,
}: {
  readonly side: Side;
  readonly chat: Chat;
  readonly offers: readonly Offer[];
}) {
  const { service, turns } = chat.panes[side];
  const offer = offers.find((one) => one.service === service);
  const end = useFollowedEnd(turns);
  return (
    <section className="pane" aria-label={service}>
      <Picker offers={offers} value={service} onChange={(chosen) => chooseService(side, chosen)} />
      {turns.length === 0 ? (
        <div className="pane-empty">
          <h2>{texts.start}</h2>
          <p className="muted">{texts.startWhy}</p>
        </div>
      ) : (
        <Turns side={side} turns={turns} isIdle={offer?.state === "idle"} />
      )}
      <div ref={end} />
    </section>
  );
}

/** A reader who has scrolled up more than this reads something else. */
const NEAR_PX = 160;

/** Keeps the end in view while an answer is written, unless the reader has scrolled away from it. */
function useFollowedEnd(turns: readonly unknown[]) {
  const end = useRef<HTMLDivElement>(null);
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
  return end;
}
