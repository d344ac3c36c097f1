/** Markdown as React elements. A block is rendered again only if its text has changed. */
import { memo, type ReactNode } from "react";
import { CodeBlock } from "./code.tsx";
import { type Block, parseMarkdown, parseSpans } from "./markdown.ts";

export function Markdown({ text }: { readonly text: string }) {
  return (
    <div className="stack markdown" dir="auto">
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

const TAGS = { text: "span", bold: "strong", italic: "em", code: "code" } as const;

function renderSpans(text: string): ReactNode {
  return parseSpans(text).map(({ kind, text: content }, index) => {
    const Tag = TAGS[kind];
    // biome-ignore lint/suspicious/noArrayIndexKey: spans are only added at the end
    return <Tag key={index}>{content}</Tag>;
  });
}
