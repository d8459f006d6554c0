import { flagsMarkdown, limitsMarkdown } from '@nereid/config';
import { errorReasonsMarkdown, errorTableMarkdown } from '@nereid/protocol';
import { redisKeysMarkdown } from '@nereid/transport';
import { EXIT_MEANINGS } from './exit-code.ts';

function exitCodesMarkdown(): string {
  const rows = EXIT_MEANINGS.map(([status, meaning]) => `| ${status} | ${meaning} |`);
  return ['## Exit codes', '', '| code | meaning |', '| ---: | --- |', ...rows, ''].join('\n');
}

const ERRORS_HEAD = `# Errors

Every error has one of these codes. Triton's routes answer \`{"error": text}\` with the code, and the field at fault
and the reason where there is one, in the header \`Nereid-Error: CODE; field=…; reason=…\`; over gRPC it is the trailer
\`nereid-error\`. This page is generated from \`packages/protocol/src/error.ts\` and \`error-table.ts\`.`;

/** The pages of docs/ that are generated from the code: file name to content. */
export function generatedDocs(): Readonly<Record<string, string>> {
  return {
    'errors.md': `${ERRORS_HEAD}\n\n${errorTableMarkdown()}\n## Reasons\n\n${errorReasonsMarkdown()}`,
    'flags.md': `${flagsMarkdown()}\n${exitCodesMarkdown()}`,
    'limits.md': limitsMarkdown(),
  };
}

/** A part of a page that is otherwise written by hand; it stands between two comments. */
export interface GeneratedRegion {
  readonly file: string;
  readonly name: string;
  readonly content: string;
}

export function generatedRegions(): readonly GeneratedRegion[] {
  return [{ file: 'redis.md', name: 'redis-keys', content: redisKeysMarkdown() }];
}

/** The page with that region as it is now in the code. Throws where the page has no such region. */
export function withRegion(page: string, { file, name, content }: GeneratedRegion): string {
  const begin = `<!-- generated: ${name} -->\n`;
  const end = `<!-- end: ${name} -->\n`;
  const from = page.indexOf(begin);
  const to = page.indexOf(end, from);
  if (from < 0 || to < 0) throw new Error(`docs/${file} has no region ${begin.trim()} … ${end.trim()}`);
  return `${page.slice(0, from)}${begin}\n${content.trim()}\n\n${page.slice(to)}`;
}
