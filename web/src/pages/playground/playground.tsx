/** The page Playground: talk to a service, embed texts, rank documents, through the gateway as clients do. */

import { useQuery } from "@tanstack/react-query";
import { KeyRound } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { useSearchParam, useSetSearch } from "../../address/search.ts";
import { gatewayModelsQuery } from "../../api/gateway.ts";
import { useSession } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Button } from "../../parts/buttons.tsx";
import { Dialog } from "../../parts/dialogs.tsx";
import { GatewayFailure, GatewayKeyForm, NoGateway, versionOf } from "../../parts/gateway-key-form.tsx";
import { Empty, Skeleton } from "../../parts/notices.tsx";
import { Page, Tabs } from "../../parts/page.tsx";
import { ChatTab } from "./chat.tsx";
import { type Mode, type Offer, offersOf } from "./offers.ts";
import { EmbeddingsTab, RerankTab } from "./vectors.tsx";
import "./playground.css";

export function PlaygroundPage() {
  const session = useSession();
  const [tab, setTab] = useSearchParam("tab", "chat");
  const [hasKeyForm, setHasKeyForm] = useState(false);
  const keyButton = (
    <Button look="quiet" icon={<KeyRound size={14} aria-hidden />} onClick={() => setHasKeyForm(true)}>
      Gateway key
    </Button>
  );
  const hasGateway = session?.hasGateway;
  return (
    <Page
      title="Playground"
      subtitle="Ask a service through the gateway, as your clients do."
      actions={hasGateway === true && keyButton}
    >
      {hasGateway === false && <NoGateway />}
      {hasGateway === true && (
        <div className="playground">
          <Tabs
            value={tab}
            onChange={setTab}
            tabs={[
              { id: "chat", label: "Chat", content: () => within("chat", ChatTab) },
              {
                id: "embeddings",
                label: "Embeddings",
                content: () => within("embedding", EmbeddingsTab),
              },
              { id: "rerank", label: "Rerank", content: () => within("rerank", RerankTab) },
            ]}
          />
        </div>
      )}
      <Dialog title="Gateway key" isOpen={hasKeyForm} isForm onClose={() => setHasKeyForm(false)}>
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
  const { rows } = useList("services");
  const version = useMemo(() => versionOf(rows), [rows]);
  const { data, error, isPending, refetch } = useQuery(gatewayModelsQuery(version));
  const offers = useMemo(() => offersOf(data ?? [], rows, mode), [data, rows, mode]);
  const setSearch = useSetSearch();
  const problem = error !== null && <GatewayFailure error={error} onRetry={() => void refetch()} />;
  // What the reader has typed stays.
  if (offers.length > 0)
    return (
      <>
        {problem}
        <Content offers={offers} />
      </>
    );
  if (error !== null) return problem;
  if (isPending) return <Skeleton rows={3} />;
  return (
    <Empty
      title={`No ${mode} services yet`}
      why="Deploy a model, and talk to it here as soon as it is ready."
    >
      <Button look="primary" onClick={() => setSearch({ deploy: "new" })}>
        Deploy a model
      </Button>
    </Empty>
  );
}
