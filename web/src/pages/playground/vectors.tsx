/** Embeddings and reranking: one request, and its answer as a table. */
import { useMutation } from "@tanstack/react-query";
import { Code, Play, Square } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";
import { askGateway } from "../../api/gateway.ts";
import { Button } from "../../parts/buttons.tsx";
import { formatCount } from "../../parts/format.ts";
import { GatewayFailure } from "../../parts/gateway-key-form.tsx";
import { type Column, Table } from "../../parts/table/table.tsx";
import { CodeDialog } from "./code.tsx";
import { canAsk, type Offer } from "./offers.ts";
import { Picker } from "./picker.tsx";
import type { SnippetRequest } from "./request.ts";
import { cosineSimilarity, linesOf } from "./similarity.ts";
import { AnsweringHost } from "./turns.tsx";

/** A table of more does not fit a screen. */
const MAX_TEXTS = 12;
const SHOWN_NUMBERS = 4;

interface EmbeddingAnswer {
  readonly data: readonly { readonly index: number; readonly embedding: readonly number[] }[];
}

interface RerankAnswer {
  readonly results: readonly { readonly index: number; readonly relevance_score: number }[];
}

export function EmbeddingsTab({ offers }: { readonly offers: readonly Offer[] }) {
  const [text, setText] = useState<string>(
    "A cat sleeps on the sofa.\nA kitten naps on the couch.\nThe train leaves at noon.",
  );
  const input = linesOf(text);
  const isTooMany = input.length > MAX_TEXTS;
  return (
    <RequestForm<{ readonly input: readonly string[] }, EmbeddingAnswer>
      offers={offers}
      path="/v1/embeddings"
      label="Embed"
      body={{ input }}
      isReady={input.length > 0 && !isTooMany}
      render={(asked, { data }) => <Similarities lines={asked.input} vectors={data} />}
    >
      <label className="field">
        <span>Texts, one per line</span>
        <textarea rows={5} value={text} dir="auto" onChange={({ target }) => setText(target.value)} />
      </label>
      {isTooMany && <p className="field-error">{`At most ${MAX_TEXTS} texts at a time.`}</p>}
    </RequestForm>
  );
}

export function RerankTab({ offers }: { readonly offers: readonly Offer[] }) {
  const [query, setQuery] = useState<string>("Where do cats sleep?");
  const [text, setText] = useState<string>(
    "A kitten naps on the couch.\nThe train leaves at noon.\nDogs guard the house.",
  );
  const documents = linesOf(text);
  return (
    <RequestForm<{ readonly query: string; readonly documents: readonly string[] }, RerankAnswer>
      offers={offers}
      path="/v1/rerank"
      label="Rank"
      body={{ query, documents }}
      isReady={query.trim() !== "" && documents.length > 0}
      render={(asked, { results }) => <Ranked documents={asked.documents} results={results} />}
    >
      <label className="field">
        <span>Query</span>
        <input value={query} dir="auto" onChange={({ target }) => setQuery(target.value)} />
      </label>
      <label className="field">
        <span>Documents, one per line</span>
        <textarea rows={6} value={text} dir="auto" onChange={({ target }) => setText(target.value)} />
      </label>
    </RequestForm>
  );
}

/** The service, the request with Run or Stop and its code, and the answer with its time and host. */
function RequestForm<Body extends object, Answer>({
  offers,
  path,
  label,
  body,
  isReady,
  render,
  children,
}: {
  readonly offers: readonly Offer[];
  readonly path: SnippetRequest["path"];
  readonly label: string;
  readonly body: Body;
  readonly isReady: boolean;
  /** `asked` is the body of the request that was answered. */
  readonly render: (asked: Body, answer: Answer) => ReactNode;
  readonly children: ReactNode;
}) {
  const [chosen, setChosen] = useState("");
  const [hasCode, setHasCode] = useState(false);
  const running = useRef<AbortController>(undefined);
  const offer = offers.find(({ service }) => service === chosen) ?? offers.find(canAsk);
  const request = { model: offer?.service ?? "", ...body };
  const { mutate, reset, data, error, isPending } = useMutation({
    mutationFn: async (asked: typeof request) => {
      const controller = new AbortController();
      running.current = controller;
      const startMs = performance.now();
      const answered = await askGateway<Answer>(path, asked, controller.signal);
      return { ...answered, asked, ranMs: performance.now() - startMs };
    },
  });
  const stop = (): void => {
    running.current?.abort();
    reset();
  };
  return (
    <div className="stack vectors">
      <Picker offers={offers} value={offer?.service ?? ""} onChange={setChosen} />
      {children}
      <div className="row">
        {isPending ? (
          <Button icon={<Square size={14} aria-hidden />} onClick={stop}>
            Stop
          </Button>
        ) : (
          <Button
            look="primary"
            icon={<Play size={14} aria-hidden />}
            disabled={!isReady || offer === undefined || !canAsk(offer)}
            onClick={() => mutate(request)}
          >
            {label}
          </Button>
        )}
        <Button look="quiet" icon={<Code size={14} aria-hidden />} onClick={() => setHasCode(true)}>
          Code
        </Button>
      </div>
      {hasCode && <CodeDialog request={{ path, body: request }} onClose={() => setHasCode(false)} />}
      {error !== null && <GatewayFailure error={error} onRetry={() => mutate(request)} />}
      {data !== undefined && (
        <>
          <p className="wrap muted small number">
            <span>{formatCount(Math.round(data.ranMs))} ms</span>
            <AnsweringHost host={data.host} />
          </p>
          {render(data.asked, data.answer)}
        </>
      )}
    </div>
  );
}

function Similarities({
  lines,
  vectors,
}: {
  readonly lines: readonly string[];
  readonly vectors: EmbeddingAnswer["data"];
}) {
  const rows = [...vectors].sort((a, b) => a.index - b.index);
  const columns: readonly Column<(typeof rows)[number]>[] = [
    {
      id: "text",
      header: "Text",
      cell: ({ index }) => (
        <>
          {index + 1}. <bdi>{lines[index]}</bdi>
        </>
      ),
      isRowHeader: true,
    },
    ...rows.map(
      (other): Column<(typeof rows)[number]> => ({
        id: String(other.index),
        header: String(other.index + 1),
        cell: ({ embedding }) => cosineSimilarity(embedding, other.embedding).toFixed(2),
        isNumber: true,
      }),
    ),
    {
      id: "vector",
      header: "Vector",
      cell: ({ embedding }) => {
        const shown = embedding.slice(0, SHOWN_NUMBERS).map((value) => value.toFixed(3));
        return <span className="mono muted">[{shown.join(", ")}, …]</span>;
      },
    },
  ];
  return (
    <>
      <p className="wrap muted small number">
        <span>Cosine similarity</span>
        <span>{`${rows[0]?.embedding.length ?? 0} dimensions`}</span>
      </p>
      <Table
        label="Cosine similarity"
        rows={rows}
        keyOf={({ index }) => String(index)}
        columns={columns}
        none=""
      />
    </>
  );
}

function Ranked({
  documents,
  results,
}: {
  readonly documents: readonly string[];
  readonly results: RerankAnswer["results"];
}) {
  const ranked = results.toSorted((a, b) => b.relevance_score - a.relevance_score);
  return (
    <Table
      label="Rerank"
      rows={ranked}
      keyOf={({ index }) => String(index)}
      columns={[
        { id: "rank", header: "Rank", cell: (row) => ranked.indexOf(row) + 1 },
        {
          id: "document",
          header: "Document",
          cell: ({ index }) => <bdi>{documents[index]}</bdi>,
          isWide: true,
        },
        {
          id: "score",
          header: "Score",
          cell: ({ relevance_score }) => relevance_score.toFixed(4),
          isNumber: true,
        },
      ]}
      none=""
    />
  );
}
