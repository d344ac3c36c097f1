/** The page Playground: talk to a service, embed texts, rank documents, through the gateway as clients do. */
import { KeyRound } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useSearchParam, useSetSearch } from "../../address/search.ts";
import { needsKey } from "../../api/gateway.ts";
import { useSession } from "../../api/session.ts";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/copy.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { GatewayKeyForm } from "../../parts/gateway-key-form.tsx";
import { Empty, Failure, Skeleton } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { gatewayTexts } from "../../texts/gateway.ts";
import { texts } from "../../texts/playground.ts";
import { text } from "../../texts/text.ts";
import { ChatTab } from "./chat/chat.tsx";
import type { Mode, Offer } from "./services/offers.ts";
import { useOffers } from "./services/use-offers.ts";
import { EmbeddingsTab } from "./vectors/embeddings.tsx";
import { RerankTab } from "./vectors/rerank.tsx";
import "./playground.css";

export function PlaygroundPage() {
  const session = useSession();
  const [tab, setTab] = useSearchParam("tab", "chat");
  const [hasKeyForm, setHasKeyForm] = useState(false);
  const keyButton = (
    <Button look="quiet" icon={<KeyRound size={14} aria-hidden />} onClick={() => setHasKeyForm(true)}>
      {gatewayTexts.key.change}
    </Button>
  );
  const hasGateway = session?.hasGateway;
  return (
    <Page title={text.pages.playground} subtitle={texts.subtitle} actions={hasGateway === true && keyButton}>
      {hasGateway === false && (
        <Empty title={gatewayTexts.none} why={gatewayTexts.noneWhy} command={gatewayTexts.noneCommand}>
          <Command>{gatewayTexts.noneServer}</Command>
        </Empty>
      )}
      {hasGateway === true && (
        <div className="playground">
          <Tabs
            value={tab}
            onChange={setTab}
            tabs={[
              { id: "chat", label: texts.tabs.chat, content: () => within("chat", ChatTab) },
              {
                id: "embeddings",
                label: texts.tabs.embeddings,
                content: () => within("embedding", EmbeddingsTab),
              },
              { id: "rerank", label: texts.tabs.rerank, content: () => within("rerank", RerankTab) },
            ]}
          />
        </div>
      )}
      <Dialog title={gatewayTexts.key.change} isOpen={hasKeyForm} isForm onClose={() => setHasKeyForm(false)}>
        <GatewayKeyForm onDone={() => setHasKeyForm(false)} />
      </Dialog>
    </Page>
  );
}

type ModeTab = (props: { readonly offers: readonly Offer[] }) => ReactNode;

function within(mode: Mode, Content: ModeTab): ReactNode {
  return <WithOffers key={mode} mode={mode} Content={Content} />;
}

function WithOffers({ mode, Content }: { readonly mode: Mode; readonly Content: ModeTab }) {
  const { offers, isLoading, error, reload } = useOffers(mode);
  const setSearch = useSetSearch();
  const problem =
    error === null ? null : needsKey(error) ? (
      <GatewayKeyForm refusal={error} onDone={reload} />
    ) : (
      <Failure error={error} onRetry={reload} />
    );
  // What the reader has typed stays.
  if (offers.length > 0)
    return (
      <>
        {problem}
        <Content offers={offers} />
      </>
    );
  if (problem !== null) return problem;
  if (isLoading) return <Skeleton rows={3} />;
  return (
    <Empty title={texts.none[mode]} why={texts.noneWhy}>
      <Button look="primary" onClick={() => setSearch({ deploy: "new" })}>
        {texts.deploy}
      </Button>
    </Empty>
  );
}
