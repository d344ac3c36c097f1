/** Texts become vectors, and a table says how similar they are. */
import { useState } from "react";
import { texts } from "../../../texts/playground.ts";
import { AskFailure } from "../chat/ask-failure.tsx";
import { canAsk, type Offer } from "../services/offers.ts";
import { Picker } from "../services/picker.tsx";
import { RunBar, RunFigures } from "./bar.tsx";
import { cosineSimilarity, linesOf } from "./similarity.ts";
import { useRequest } from "./use-request.ts";
import "./vectors.css";

/** A table of more does not fit a screen. */
const MAX_TEXTS = 12;
const SHOWN_NUMBERS = 4;

interface EmbeddingAnswer {
  readonly data: readonly { readonly index: number; readonly embedding: readonly number[] }[];
}

export function EmbeddingsTab({ offers }: { readonly offers: readonly Offer[] }) {
  const [chosen, setChosen] = useState("");
  const [input, setInput] = useState<string>(texts.embeddings.example);
  const [asked, setAsked] = useState<readonly string[]>([]);
  const { outcome, run, stop } = useRequest<EmbeddingAnswer>("/v1/embeddings");
  const offer = offers.find(({ service }) => service === chosen) ?? offers.find(canAsk);
  const lines = linesOf(input);
  const isTooMany = lines.length > MAX_TEXTS;
  const body = { model: offer?.service ?? "", input: lines };
  const ask = (): void => {
    setAsked(lines);
    run(body);
  };
  return (
    <div className="stack vectors">
      <Picker offers={offers} value={offer?.service ?? ""} onChange={setChosen} />
      <label className="field">
        <span>{texts.embeddings.label}</span>
        <textarea rows={5} value={input} dir="auto" onChange={({ target }) => setInput(target.value)} />
      </label>
      {isTooMany && <p className="field-error">{texts.embeddings.tooMany(MAX_TEXTS)}</p>}
      <RunBar
        offer={offer}
        label={texts.embeddings.run}
        canRun={lines.length > 0 && !isTooMany}
        isRunning={outcome.at === "running"}
        request={{ path: "/v1/embeddings", body }}
        onRun={ask}
        onStop={stop}
      />
      {outcome.at === "failed" && <AskFailure error={outcome.error} onRetry={ask} />}
      {outcome.at === "done" && (
        <>
          <RunFigures ranMs={outcome.ranMs} host={outcome.host}>
            <span>{texts.embeddings.dimensions(outcome.answer.data[0]?.embedding.length ?? 0)}</span>
          </RunFigures>
          <Vectors lines={asked} answer={outcome.answer} />
        </>
      )}
    </div>
  );
}

function Vectors({ lines, answer }: { readonly lines: readonly string[]; readonly answer: EmbeddingAnswer }) {
  const vectors = [...answer.data].sort((a, b) => a.index - b.index).map(({ embedding }) => embedding);
  return (
    <div className="vectors-scroll card">
      <table>
        <caption>{texts.embeddings.similarity}</caption>
        <thead>
          <tr>
            <th scope="col">{texts.embeddings.text}</th>
            {vectors.map((_, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a text is known by its place
              <th key={index} scope="col" className="vectors-number">
                {index + 1}
              </th>
            ))}
            <th scope="col">{texts.embeddings.first}</th>
          </tr>
        </thead>
        <tbody>
          {vectors.map((vector, row) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a text is known by its place
            <tr key={row}>
              <th scope="row" className="vectors-text">
                {row + 1}. <bdi>{lines[row]}</bdi>
              </th>
              {vectors.map((other, column) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a text is known by its place
                <SimilarityCell key={column} value={cosineSimilarity(vector, other)} />
              ))}
              <td className="mono muted">
                [
                {vector
                  .slice(0, SHOWN_NUMBERS)
                  .map((value) => value.toFixed(3))
                  .join(", ")}
                , …]
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The background repeats the number. */
function SimilarityCell({ value }: { readonly value: number }) {
  const share = Math.round(Math.max(0, value) * 40);
  return (
    <td
      className="vectors-number"
      style={{ background: `color-mix(in srgb, var(--accent) ${share}%, transparent)` }}
    >
      {value.toFixed(2)}
    </td>
  );
}
