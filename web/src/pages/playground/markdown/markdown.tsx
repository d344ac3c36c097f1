/** Markdown as React elements. A block is rendered again only if its text has changed. */
import { memo, type ReactNode } from "react";
import { CopyButton } from "../../../parts/copy.tsx";
import { texts } from "../../../texts/playground.ts";
import { type Block, parseMarkdown, parseSpans } from "./parse.ts";
import "./markdown.css";

export function Markdown({ text }: { readonly text: string }) {
  return (
    <div className="markdown" dir="auto">
      {parseMarkdown(text).map((block, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks are only added at the end
        <MarkdownBlock key={index} block={block} />
      ))}
    </div>
  );
}

const MarkdownBlock = memo(
  ({ block }: { readonly block: Block }) => renderBlock(block),
  (before, after) => JSON.stringify(before.block) === JSON.stringify(after.block),
);

function renderBlock(block: Block): ReactNode {
  switch (block.kind) {
    case "paragraph":
      return <p>{renderSpans(block.text)}</p>;
    case "heading":
      return <h3>{renderSpans(block.text)}</h3>;
    case "code":
      return <CodeBlock language={block.language} text={block.text} />;
    case "list":
      return (
        <ul>
          {block.items.map(({ depth, marker, text }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items are only added at the end
            <li key={index} style={{ marginInlineStart: depth * 20 }}>
              <span className="markdown-marker" aria-hidden={!block.isOrdered}>
                {/^\d/.test(marker) ? marker : "•"}
              </span>
              <span>{renderSpans(text)}</span>
            </li>
          ))}
        </ul>
      );
    default:
      return block satisfies never;
  }
}

export function CodeBlock({ language, text }: { readonly language: string; readonly text: string }) {
  return (
    <figure className="code">
      <figcaption className="spread">
        <span className="muted small">{language === "" ? texts.code.plain : language}</span>
        <CopyButton value={text} label={texts.code.copy} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a block that scrolls is reached by keyboard */}
      <pre tabIndex={0}>
        <code dir="ltr">{text}</code>
      </pre>
    </figure>
  );
}

function renderSpans(text: string): ReactNode {
  return parseSpans(text).map(({ kind, text: content }, index) => {
    const key = `${index}`;
    if (kind === "code") return <code key={key}>{content}</code>;
    if (kind === "bold") return <strong key={key}>{content}</strong>;
    return kind === "italic" ? <em key={key}>{content}</em> : <span key={key}>{content}</span>;
  });
}
