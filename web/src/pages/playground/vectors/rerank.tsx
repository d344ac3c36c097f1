/** Documents ranked by how well they answer a query. */
import { useState } from "react";
import { texts } from "../../../texts/playground.ts";
import { AskFailure } from "../chat/ask-failure.tsx";
import { canAsk, type Offer } from "../services/offers.ts";
import { Picker } from "../services/picker.tsx";
import { RunBar, RunFigures } from "./bar.tsx";
import { linesOf } from "./similarity.ts";
import { useRequest } from "./use-request.ts";
import "./vectors.css";

interface RerankAnswer {
  readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
}

export function RerankTab({ offers }: { readonly offers: readonly Offer[] }) {
  const [chosen, setChosen] = useState("");
  const [query, setQuery] = useState<string>(texts.rerank.exampleQuery);
  const [input, setInput] = useState<string>(texts.rerank.example);
  const [asked, setAsked] = useState<readonly string[]>([]);
  const { outcome, run, stop } = useRequest<RerankAnswer>("/v1/rerank");
  const offer = offers.find(({ service }) => service === chosen) ?? offers.find(canAsk);
  const documents = linesOf(input);
  const body = { model: offer?.service ?? "", query, documents };
  const ask = (): void => {
    setAsked(documents);
    run(body);
  };
  return (
    <div className="stack vectors">
      <Picker offers={offers} value={offer?.service ?? ""} onChange={setChosen} />
      <label className="field">
        <span>{texts.rerank.query}</span>
        <input value={query} dir="auto" onChange={({ target }) => setQuery(target.value)} />
      </label>
      <label className="field">
        <span>{texts.rerank.documents}</span>
        <textarea rows={6} value={input} dir="auto" onChange={({ target }) => setInput(target.value)} />
      </label>
      <RunBar
        offer={offer}
        label={texts.rerank.run}
        canRun={query.trim() !== "" && documents.length > 0}
        isRunning={outcome.at === "running"}
        request={{ path: "/v1/rerank", body }}
        onRun={ask}
        onStop={stop}
      />
      {outcome.at === "failed" && <AskFailure error={outcome.error} onRetry={ask} />}
      {outcome.at === "done" && (
        <>
          <RunFigures ranMs={outcome.ranMs} host={outcome.host} />
          <Ranked documents={asked} answer={outcome.answer} />
        </>
      )}
    </div>
  );
}

function Ranked({
  documents,
  answer,
}: {
  readonly documents: readonly string[];
  readonly answer: RerankAnswer;
}) {
  const ranked = [...answer.results].sort((a, b) => b.relevance_score - a.relevance_score);
  return (
    <div className="vectors-scroll card">
      <table>
        <thead>
          <tr>
            <th scope="col">{texts.rerank.rank}</th>
            <th scope="col">{texts.rerank.document}</th>
            <th scope="col" className="vectors-number">
              {texts.rerank.score}
            </th>
          </tr>
        </thead>
        <tbody>
          {ranked.map(({ index, relevance_score }, rank) => (
            <tr key={index}>
              <td className="number">{rank + 1}</td>
              <td className="vectors-text">
                <bdi>{documents[index]}</bdi>
              </td>
              <td className="vectors-number">{relevance_score.toFixed(4)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
