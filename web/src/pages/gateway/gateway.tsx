/** The page Gateway: model names, keys, queues. */
import { useSearchParam } from "../../address/search.ts";
import { useSession } from "../../api/session.ts";
import { useList } from "../../live/hooks.ts";
import { Command } from "../../parts/copy.tsx";
import { Empty } from "../../parts/notice.tsx";
import { Page } from "../../parts/page.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { gatewayTexts } from "../../texts/gateway.ts";
import { text } from "../../texts/text.ts";
import { KeysTab } from "./keys/keys-tab.tsx";
import { ModelsTab } from "./models-tab.tsx";
import { QueuesTab } from "./queues-tab.tsx";
import "./gateway.css";

export function GatewayPage() {
  const session = useSession();
  const queues = useList("queues");
  const [tab, setTab] = useSearchParam("tab", "models");
  const waiting = queues.rows.reduce((sum, row) => sum + row.waiting, 0);
  const { tabs } = gatewayTexts;
  return (
    <Page title={text.pages.gateway} subtitle={gatewayTexts.subtitle} isWide>
      {session !== undefined && (
        <Tabs
          value={tab}
          onChange={setTab}
          tabs={[
            {
              id: "models",
              label: tabs.models,
              content: () => (session.hasGateway ? <ModelsTab gatewayUrl={session.gatewayUrl} /> : <None />),
            },
            { id: "keys", label: tabs.keys, content: () => <KeysTab queues={queues.rows} /> },
            {
              id: "queues",
              label: tabs.queues,
              ...(waiting > 0 && { count: waiting }),
              content: () => <QueuesTab queues={queues} hasGateway={session.hasGateway} none={<None />} />,
            },
          ]}
        />
      )}
    </Page>
  );
}

function None() {
  return (
    <Empty title={gatewayTexts.none} why={gatewayTexts.noneWhy} command={gatewayTexts.noneCommand}>
      <Command>{gatewayTexts.noneServer}</Command>
    </Empty>
  );
}
