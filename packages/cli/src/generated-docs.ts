import { flagsMarkdown, limitsMarkdown } from '@nereid/config';
import { errorTableMarkdown } from '@nereid/protocol';
import { EXIT_CODE, EXIT_MEANINGS } from './exit-code.ts';

function exitCodesMarkdown(): string {
  const rows = Object.entries(EXIT_MEANINGS).map(
    ([name, meaning]) => `| ${EXIT_CODE[name as keyof typeof EXIT_CODE]} | ${meaning} |`,
  );
  return ['## Exit codes', '', '| code | meaning |', '| ---: | --- |', ...rows, ''].join('\n');
}

/** The pages of docs/ that are generated from the code: file name to content. */
export function generatedDocs(): Readonly<Record<string, string>> {
  return {
    'errors.md': errorTableMarkdown(),
    'flags.md': `${flagsMarkdown()}\n${exitCodesMarkdown()}`,
    'limits.md': limitsMarkdown(),
  };
}
